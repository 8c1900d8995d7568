#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/record/run_record.h"

namespace echelon::report {

/// What `echelon runs` tells of a run.
struct RunRow {
  fs::Path folder;
  RunState state = RunState::kUnknown;
  std::int64_t step = 0;
  std::optional<std::int64_t> steps;       ///< planned
  std::optional<double> loss;              ///< the last one
  std::optional<double> validation_loss;   ///< the last one
  std::optional<double> rate;              ///< tokens per second of the last line
  std::optional<std::int64_t> saved_step;  ///< of the newest checkpoint
  double changed_s = 0;                    ///< when the newest of its files was written, since 1970
};

/// The run folders at and below `folder`, at most `kDeepest` levels down; the one that changed last comes
/// first. Hidden folders, symbolic links and what lies within a run are passed over, and so is what cannot be
/// read. Throws Error(kUsage) if `folder` is no folder.
[[nodiscard]] std::vector<RunRow> find_runs(const fs::Path& folder, double now_s);
inline constexpr int kDeepest = 4;

/// One line a run below a line of titles, in columns as wide as needed. Folder names are harmless to a
/// terminal.
[[nodiscard]] std::vector<std::string> table(const std::vector<RunRow>& runs, double now_s);
/// One object a run; what is not known is null.
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<RunRow>& runs);

}  // namespace echelon::report
