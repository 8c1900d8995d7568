#include "base/terminal/status_line.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/mutex.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon::status_line {
namespace {

constexpr std::string_view kWipe = "\r\033[K";
// Without wrapping, because only the cursor's line can be wiped, not the earlier parts of a wrapped one.
constexpr std::string_view kNoWrap = "\033[?7l";
constexpr std::string_view kWrap = "\033[?7h";
constexpr double kSoonest_s = 0.5;
constexpr const char* kVariable = "ECHELON_PROGRESS";

// Process-wide, like the logger: two status lines would overwrite each other.
struct Shown {
  Mutex mutex;
  std::string text ECHELON_GUARDED_BY(mutex);
};
Shown& shown() {
  static Shown only;
  return only;
}

bool progress_is(std::string_view word) {
  return environment_variable(kVariable) == word;
}

std::string drawn(const std::string& text) {
  return text.empty() ? "" : str(kNoWrap, text, kWrap);
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool is_possible(int fd) {
  const std::string kind = environment_variable("TERM");
  return ::isatty(fd) == 1 && !kind.empty() && kind != "dumb";
}

bool is_live() {
  if (is_off() || !first_of_step()) return false;
  return progress_is("bar") || is_possible(STDERR_FILENO);
}

void turn_on() {
  setenv(kVariable, "bar", 1);
}

void turn_off() {
  setenv(kVariable, "none", 1);
}

bool is_off() {
  return progress_is("none");
}

void show(const std::string& text) {
  const Lock lock(shown().mutex);
  if (text.empty() && shown().text.empty()) return;
  shown().text = text;
  print(str(kWipe, drawn(text)));
}

void print_above(std::string_view line) {
  Shown& status = shown();
  const Lock lock(status.mutex);
  print(status.text.empty() ? std::string(line) : str(kWipe, line, drawn(status.text)));
}

std::string bar(double share, std::size_t width) {
  const double part = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
  return std::string(filled, '#') + std::string(width - filled, '.');
}

std::string pace(std::uint64_t done, std::uint64_t total, double seconds, bool bytes) {
  if (done == 0 || seconds < kSoonest_s) return "";
  const double rate = static_cast<double>(done) / seconds;
  const double left = static_cast<double>(total - std::min(done, total)) / rate;
  return str(", ", bytes ? human_bytes(rate) : str(std::round(rate * 10) / 10), "/s, ", std::llround(left),
             " s left");
}

}  // namespace echelon::status_line
