#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace echelon::data {

/// The usual alphabet of RFC 4648, with '=' at the end.
[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Nothing for what to_base64() does not give.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace echelon::data
