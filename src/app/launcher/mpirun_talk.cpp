#include "app/launcher/mpirun_talk.h"

#include <algorithm>
#include <array>

namespace echelon::app {
namespace {

const std::string kDashes = std::string(74, '-') + '\n';
const std::array<std::string, 3> kBeginnings{kDashes + "prterun detected that one or more processes",
                                             kDashes + "prterun noticed that process rank",
                                             kDashes + "prterun has exited due to process rank"};
/// libevent's warning about a pipe to a rank that has ended.
const std::string kWarning = "[warn] Epoll ";

}  // namespace

std::string MpirunTalk::pass(std::string_view bytes) {
  held_ += bytes;
  std::string passed;
  while (!held_.empty()) {
    if (within_ == Within::kNothing) {
      const auto begun = [this](const std::string& beginning) { return held_.starts_with(beginning); };
      const auto may_begin = [this](const std::string& beginning) { return beginning.starts_with(held_); };
      if (std::ranges::any_of(kBeginnings, begun)) {
        held_.erase(0, kDashes.size());
        within_ = Within::kTalk;
      } else if (held_.starts_with(kWarning)) {
        within_ = Within::kWarning;
      } else if (may_begin(kWarning) || std::ranges::any_of(kBeginnings, may_begin)) {
        return passed;
      } else {
        within_ = Within::kLine;
      }
      continue;
    }
    const auto end = held_.find('\n');
    // A line to pass may be passed in parts; a line to remove must be complete to find its end.
    const bool talk = within_ == Within::kTalk;
    if (end == std::string::npos && within_ != Within::kLine) return passed;
    const std::string line = held_.substr(0, end == std::string::npos ? end : end + 1);
    held_.erase(0, line.size());
    if (within_ == Within::kLine) passed += line;
    if (end != std::string::npos && (!talk || line == kDashes)) within_ = Within::kNothing;
  }
  return passed;
}

std::string MpirunTalk::rest() {
  std::string held;
  if (within_ == Within::kNothing || within_ == Within::kLine) held.swap(held_);
  return held;
}

}  // namespace echelon::app
