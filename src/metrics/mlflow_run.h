#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/files/new_file.h"
#include "base/not_copied.h"
#include "metrics/line.h"
#include "metrics/tracked_run.h"

namespace echelon::metrics {

/// A run in a folder that MLflow takes for its file store (`--backend-store-uri FOLDER`): meta.yaml for the
/// experiment and the run, a file for each parameter and each metric. Several runs share a folder. Throws
/// Error(kEnvironment).
class MlflowRun : NotCopied {
 public:
  /// `folder`: of the store. `began_s`: the start of the run, since 1970.
  MlflowRun(const std::filesystem::path& folder, TrackedRun run, double began_s);
  ~MlflowRun();  ///< without finish(), nothing is left

  void append(const Line& line);
  /// Writes the run, in place of an earlier export. Returns the run's folder. Warns of values whose names
  /// MLflow does not allow; they are left out.
  std::filesystem::path finish();

 private:
  struct Metric {
    explicit Metric(std::filesystem::path path) : file(std::move(path), Code::kEnvironment) {}
    void flush();

    fs::NewFile file;
    std::string waiting;  ///< not yet written
  };
  [[nodiscard]] Metric& metric(const std::string& name);
  void write(const std::filesystem::path& file, const std::string& text) const;

  TrackedRun run_;
  std::filesystem::path experiment_;
  std::filesystem::path folder_;
  std::filesystem::path draft_;  ///< becomes folder_
  double began_s_;
  double last_s_;
  std::map<std::string, Metric> metrics_;
  std::int64_t left_out_ = 0;
};

}  // namespace echelon::metrics
