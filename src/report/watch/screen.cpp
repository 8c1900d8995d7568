#include "report/watch/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "base/process/process.h"
#include "base/terminal/status_line.h"

namespace echelon::report {
namespace {

/// Another screen, no cursor, no wrapping.
constexpr const char* kEnter = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr const char* kLeave = "\033[?7h\033[?25h\033[?1049l";

void print(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stdout);
  (void)std::fflush(stdout);
}

/// The signals that wait() receives: they arrive nowhere else.
sigset_t awaited() {
  sigset_t set;
  (void)sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH})
    (void)sigaddset(&set, number);
  return set;
}

bool says_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string text = environment_variable(name);
    if (text.empty()) continue;
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos ||
           text.find("UTF8") != text.npos;
  }
  return false;
}

}  // namespace

Screen::Screen(bool redraws) : redraws_(redraws) {
  if (!redraws_) return;
  const sigset_t set = awaited();
  (void)sigprocmask(SIG_BLOCK, &set, nullptr);
  print(kEnter);
}

Screen::~Screen() {
  if (redraws_) print(kLeave);
}

ViewSize Screen::size() const {
  ViewSize size{.utf8 = says_utf8()};
  winsize window{};
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 &&
      window.ws_row > 0) {
    size.columns = window.ws_col;
    size.rows = window.ws_row;
  }
  const bool plain = !environment_variable("NO_COLOR").empty();  // as https://no-color.org wants
  size.color = status_line::is_possible(STDOUT_FILENO) && !plain;
  return size;
}

void Screen::draw(const std::vector<std::string>& lines) {
  std::string text = redraws_ ? "\033[H" : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool last = i + 1 == lines.size();
    // Before the text: behind a line as wide as the screen, it would take away the last character.
    if (redraws_) text += last ? "\033[J" : "\033[K";
    text += lines[i];
    if (!redraws_ || !last) text += "\n";
  }
  print(text);
}

bool Screen::wait(double seconds) {
  const sigset_t set = awaited();
  const auto whole = static_cast<std::time_t>(seconds);
  constexpr double kNano = 1e9;
  const timespec limit{.tv_sec = whole,
                       .tv_nsec = static_cast<long>((seconds - static_cast<double>(whole)) * kNano)};
  const int number = sigtimedwait(&set, nullptr, &limit);
  if (number == SIGTSTP) {
    print(kLeave);
    (void)::raise(SIGSTOP);
    print(kEnter);
    return false;
  }
  return number > 0 && number != SIGWINCH;
}

}  // namespace echelon::report
