#include "base/terminal/progress_bar.h"

#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/status_line.h"

namespace echelon {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr auto kRefresh = std::chrono::milliseconds(100);

}  // namespace

ProgressBar::ProgressBar(const std::string& doing, std::string unit)
    : doing_(foreign_text(doing)), unit_(std::move(unit)), live_(status_line::is_live()) {
  if (live_) status_line::show(doing_);
}

ProgressBar::~ProgressBar() {
  status_line::show("");
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
  const auto now = Clock::now();
  if (!live_ || now - last_ < kRefresh) return;
  last_ = now;
  if (total == 0) return status_line::show(str(doing_, ": ", done, ' ', unit_));
  const double share = static_cast<double>(done) / static_cast<double>(total);
  status_line::show(str(
      doing_, " [", status_line::bar(share, kBarWidth), "] ", static_cast<int>(share * 100), "% of ",
      unit_.empty() ? human_bytes(total) : str(total, ' ', unit_),
      status_line::pace(done, total, std::chrono::duration<double>(now - start_).count(), unit_.empty())));
}

}  // namespace echelon
