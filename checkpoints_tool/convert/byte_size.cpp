#include "checkpoints_tool/convert/byte_size.h"

#include "base/error.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::tool {

std::uint64_t parse_byte_size(const std::string& text, const std::string& option) {
  constexpr double kTooLarge = 0x1p64;
  const bool has_unit = text.ends_with('B') || text.ends_with('b');
  const bool is_bare = !text.empty() && text.back() >= '0' && text.back() <= '9';
  double bytes = 0;
  if (!read_bytes(str(text, has_unit  ? ""
                            : is_bare ? "B"
                                      : "iB"),
                  bytes)
           .empty() ||
      bytes < 1 || bytes >= kTooLarge) {
    throw Error(Code::kUsage, option, " '", text,
                "' is not a size; expected a number and a unit, such as 256M or 5GB");
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace echelon::tool
