#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace echelon::tool {

/// A bar on standard error if that is a terminal, otherwise nothing. Long work also notices Ctrl-C here.
class Progress {
 public:
  explicit Progress(std::string doing);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  ///< wipes the bar
  /// Throws Interrupted after SIGINT or SIGTERM.
  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string doing_;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace echelon::tool
