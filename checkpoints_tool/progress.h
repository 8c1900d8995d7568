#pragma once
#include <cstdint>
#include <string>

#include "base/terminal/progress_bar.h"
#include "checkpoints_tool/interrupt.h"

namespace echelon::tool {

/// A bar, at which long work also notices Ctrl-C.
class Progress {
 public:
  /// As of ProgressBar.
  explicit Progress(const std::string& doing, const std::string& unit = "") : bar_(doing, unit) {}
  /// Throws Interrupted after SIGINT or SIGTERM.
  void show(std::uint64_t done, std::uint64_t total) {
    check_interrupt();
    bar_.show(done, total);
  }

 private:
  ProgressBar bar_;
};

}  // namespace echelon::tool
