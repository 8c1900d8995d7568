#pragma once
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

/// Reads untrusted JSON. Not for public headers.
namespace echelon {

struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;
  int depth = 32;               ///< of objects and arrays in one another
  bool unique_keys = true;      ///< refuse a key given twice in one object; else the last one counts
  bool exact_integers = false;  ///< refuse an integer of more than 64 bits; else it becomes a double
};

/// A value, or why there is none: "not valid JSON at byte 7". One line, safe to show.
struct ForeignJson {
  nlohmann::json value;
  std::string problem;
};

/// Strict: refuses what is over the limits, a byte order mark, numbers outside double, bad UTF-8, zero bytes
/// and anything after the value. Time and stack do not depend on the nesting of the text. The depth of the
/// result is limited, so it may be walked, compared and dumped by recursion.
[[nodiscard]] ForeignJson read_foreign_json(std::string_view text, const JsonLimits& limits = {});

/// The value; throws Error(code) "<what>: <problem>".
[[nodiscard]] nlohmann::json parse_foreign_json(std::string_view text, const std::string& what, Code code,
                                                const JsonLimits& limits = {});

/// The value, with the members of objects in their order; an object may have 1024.
[[nodiscard]] nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& what,
                                                        Code code, const JsonLimits& limits = {});

/// Takes a member of an object; returns why the text is refused, or "".
using TakeMember = std::function<std::string(const std::string& name, const nlohmann::json& value)>;
/// Reads an object of many members as read_foreign_json() does, but gives them away one by one: memory holds
/// one of them, of at most kMostValues values. The same name may come twice. Returns the problem, or "".
[[nodiscard]] std::string read_members(std::string_view text, const TakeMember& take,
                                       const JsonLimits& limits);
inline constexpr std::size_t kMostValues = 250'000;

}  // namespace echelon
