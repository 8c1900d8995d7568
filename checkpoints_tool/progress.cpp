#include "progress.h"

#include <unistd.h>

#include <cstdio>

#include "base/str.h"
#include "interrupt.h"

namespace echelon::tool {
namespace {

constexpr std::size_t kBarWidth = 30;
constexpr auto kRefresh = std::chrono::milliseconds(100);
constexpr const char* kWipe = "\r\033[K";

}  // namespace

Progress::Progress(std::string doing) : doing_(std::move(doing)), terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs(kWipe, stderr);
}

void Progress::show(std::uint64_t done, std::uint64_t total) {
  check_interrupt();
  const auto now = Clock::now();
  if (!terminal_ || total == 0 || now - last_ < kRefresh) return;
  last_ = now;
  shown_ = true;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done) / seconds;
  const auto filled = static_cast<std::size_t>(share * kBarWidth);
  const std::string bar = std::string(filled, '#') + std::string(kBarWidth - filled, '.');
  std::fputs(str(kWipe, doing_, " [", bar, "] ", static_cast<int>(share * 100), "%  ", human_bytes(done),
                 " of ", human_bytes(total), "  ", human_bytes(static_cast<std::uint64_t>(rate)), "/s  ",
                 static_cast<std::int64_t>(static_cast<double>(total - done) / rate), " s left")
                 .c_str(),
             stderr);
  std::fflush(stderr);
}

}  // namespace echelon::tool
