#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "base/not_copied.h"

namespace echelon {

/// What is done now, and how far it is, on the status line while the object lives; nothing where that is not
/// shown (status_line::is_live()).
class ProgressBar : NotCopied {
 public:
  /// `doing`: "verifying"; `unit`: what is counted, such as "questions", or "" for bytes.
  explicit ProgressBar(const std::string& doing, std::string unit = "");
  ~ProgressBar();  ///< wipes it
  /// `total` 0: it is not known how much there is to do.
  void show(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string doing_;
  std::string unit_;
  bool live_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace echelon
