#include "checkpoints_tool/progress.h"

#include <unistd.h>

#include "base/str.h"
#include "base/terminal/status_line.h"
#include "checkpoints_tool/interrupt.h"

namespace echelon::tool {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr auto kRefresh = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(std::string doing)
    : doing_(std::move(doing)), terminal_(status_line::is_possible(STDERR_FILENO)) {}

Progress::~Progress() {
  status_line::show("");
}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  check_interrupt();
  const auto now = Clock::now();
  if (!terminal_ || total == 0 || now - last_ < kRefresh) return;
  last_ = now;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  status_line::show(str(doing_, " [", status_line::bar(share, kBarWidth), "] ", static_cast<int>(share * 100),
                        "% of ", human_bytes(total),
                        status_line::pace(done, total, std::chrono::duration<double>(now - start_).count())));
}

}  // namespace echelon::tool
