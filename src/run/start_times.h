#pragma once
#include <string>
#include <utility>
#include <vector>

namespace echelon {

/// The parts of the time before the first step, from the start of the process on. Earlier time, since the
/// batch script began the start (ECHELON_STARTED_AT), counts as "launch".
class StartTimes {
 public:
  StartTimes();
  /// A phase is over, and the next one begins.
  void done(const char* phase);
  /// "start: launch 0.2 s, connect 0.31, ...: 1.2 s in all".
  [[nodiscard]] std::string describe() const;

 private:
  std::vector<std::pair<std::string, double>> phases_;  ///< name and seconds
  double since_s_;                                      ///< since 1970
};

}  // namespace echelon
