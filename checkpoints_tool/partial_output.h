#pragma once
#include <filesystem>

namespace echelon::tool {

/// An output that appears whole or not at all: made as "<path>.partial-<id>" and renamed at the end. What is
/// unfinished is removed by the destructor.
class PartialOutput {
 public:
  /// Throws Error(kUsage) when `path` exists, lies inside `checkpoint`, or its parent folder does not exist.
  PartialOutput(std::filesystem::path path, const std::filesystem::path& checkpoint);
  PartialOutput(const PartialOutput&) = delete;
  PartialOutput& operator=(const PartialOutput&) = delete;
  ~PartialOutput();

  /// Where to write: a file or folder that does not exist yet.
  [[nodiscard]] const std::filesystem::path& path() const { return partial_; }
  /// The content is durable already; gives it its name. Throws Error(kUsage) when somebody took the name
  /// meanwhile.
  void publish();

 private:
  std::filesystem::path final_;
  std::filesystem::path partial_;
  bool published_ = false;
};

}  // namespace echelon::tool
