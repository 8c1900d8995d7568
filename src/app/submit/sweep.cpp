#include "app/submit/sweep.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

/// "%2" at the end; or "".
std::string limit_in(const std::string& text) {
  const std::size_t at = text.rfind('%');
  const bool digits =
      at != text.npos && at + 1 < text.size() && text.find_first_not_of("0123456789", at + 1) == text.npos;
  return digits ? text.substr(at) : "";
}

}  // namespace

std::optional<Sweep> sweep_in(const std::string& array) {
  const std::size_t equals = array.find('=');
  if (equals == array.npos) return std::nullopt;
  const std::string limit = limit_in(array);
  const std::string key = array.substr(0, equals + 1);
  std::vector<std::string> values{""};
  int depth = 0;
  for (const char c : array.substr(equals + 1, array.size() - limit.size() - equals - 1)) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (c == ',' && depth == 0) {
      values.emplace_back();
    } else {
      values.back() += c;
    }
  }
  if (equals == 0 || std::ranges::count(values, "") > 0) {
    throw Error(Code::kUsage, "--array is '", printable(array),
                "': expected a key and its values, such as optim.lr=1e-3,3e-3,1e-2, or "
                "numbers of tasks, such as 0-3");
  }
  Sweep sweep{.array = str("0-", values.size() - 1, limit)};
  for (const std::string& value : values) sweep.overrides.push_back(key + value);
  return sweep;
}

}  // namespace echelon::submit
