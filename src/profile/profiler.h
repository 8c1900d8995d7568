#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "base/not_copied.h"
#include "comm/activity.h"
#include "comm/communicator.h"
#include "profile/kernels.h"
#include "profile/options.h"
#include "profile/rank_report.h"

namespace echelon::profile {

/// Returns the part of `wanted` after step `done`, the last one that the run has done; the run ends with step
/// `last`. Returns none, with a warning if `lead`, if all of it is done. Throws Error(kUsage) if the run ends
/// before it.
[[nodiscard]] ProfileRange ahead(const ProfileRange& wanted, std::int64_t done, std::int64_t last, bool lead);

/// Records some steps of all ranks and writes them to profile/ of the run folder: trace.json, summary.txt,
/// summary.json and lanes.json (docs/profiling.md). Between the first and the last step, measured spans go to
/// the log of `activity`.
class Profiler : NotCopied {
 public:
  /// `comm`, all ranks on the host, and `activity` must outlive this object. `kernels`: of a GPU; null on the
  /// CPU.
  Profiler(const ProfileRange& range, Communicator& comm, Activity& activity,
           std::filesystem::path run_folder, std::unique_ptr<KernelRecorder> kernels);
  ~Profiler();

  /// Call it before step `step`. `comm_wait_s`: seconds that the engine has waited for collectives so far.
  void begin_step(std::int64_t step, double comm_wait_s);
  /// A step whose spans do not all fit ends the recording and is left out. `comm_wait_s`: by now.
  void step_ended(double comm_wait_s);
  /// What is done between these calls, such as a validation, is of no step and is left out.
  void pause();
  void go_on();
  /// Returns whether write() is due after step `step`: it is the last step of the range, or (`last`) of the
  /// run.
  [[nodiscard]] bool is_due(std::int64_t step, bool last) const {
    return log_ != nullptr && !written_ && (last || step >= range_.last);
  }
  /// Ends the recording and writes the files. A failed write is a warning. Collective.
  void write();

 private:
  [[nodiscard]] bool is_recording() const { return log_ != nullptr && !written_ && !full_; }
  /// Goes on without kernels if they cannot be recorded.
  void begin_kernels();
  /// Writes this rank's part into the run folder, which all ranks share; rank 0 merges the parts.
  void write_part(const RankContext& context);
  /// On rank 0: merges the parts of all ranks. `troubles`: by rank, why its part is missing; an empty text:
  /// it is there.
  void merge(const std::vector<std::string>& troubles) const;

  ProfileRange range_;
  Communicator& comm_;
  Activity& activity_;
  std::filesystem::path run_folder_;
  std::filesystem::path folder_;
  std::unique_ptr<KernelRecorder> kernels_;
  std::shared_ptr<SpanLog> log_;  ///< null: not begun
  bool written_ = false;
  bool full_ = false;
  double began_s_ = 0;
  double comm_wait_before_s_ = 0;  ///< before the newest step
  double comm_wait_s_ = 0;         ///< in the recorded steps
  double step_began_s_ = 0;
  struct Pause {
    double begin_s = 0;
    double end_s = 0;
  };
  std::vector<Pause> pauses_;
  double ended_s_ = 0;
  std::int64_t first_ = 0;  ///< that was recorded; later than range_.first in a run that was resumed
  std::int64_t steps_ = 0;  ///< recorded whole
};

}  // namespace echelon::profile
