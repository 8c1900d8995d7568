#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/fs.h"

namespace echelon::metrics {

/// A run as experiment trackers show it.
struct TrackedRun {
  struct Parameter {
    std::string name;  ///< of the recipe's key: "optim.lr"
    std::string json;  ///< its value
  };
  /// 16 hexadecimal digits, the same for every export of the run.
  std::string id;
  std::string name;
  std::string project;
  std::vector<Parameter> parameters;
};

/// Returns `folder`, which exists now.
[[nodiscard]] inline std::filesystem::path made(std::filesystem::path folder) {
  fs::make_directories(folder, Code::kEnvironment);
  return folder;
}

}  // namespace echelon::metrics
