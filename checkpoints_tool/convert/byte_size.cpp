#include "checkpoints_tool/convert/byte_size.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace echelon::tool {
namespace {

/// Bytes of a unit in capitals, 0 for one that does not exist.
std::uint64_t unit_bytes(std::string_view unit) {
  constexpr std::string_view kLetters = "KMGT";
  if (unit.empty() || unit == "B") return 1;
  const auto power = kLetters.find(unit.front());
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  const std::uint64_t base = rest == "B" ? 1000 : rest.empty() || rest == "IB" ? 1024 : 0;
  std::uint64_t bytes = base;
  for (std::size_t i = 0; i < power; ++i) bytes *= base;
  return bytes;
}

}  // namespace

std::uint64_t parse_byte_size(const std::string& text, const std::string& option) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  std::string unit(stop, end);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
  const std::uint64_t bytes = unit_bytes(unit);
  if (error != std::errc() || number == 0 || bytes == 0 || number > UINT64_MAX / bytes) {
    throw Error(Code::kUsage, option, " '", text,
                "' is not a size; expected a number and a unit, such as 256M or 5GB");
  }
  return number * bytes;
}

}  // namespace echelon::tool
