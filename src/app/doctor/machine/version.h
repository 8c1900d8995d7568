#pragma once
#include <array>
#include <optional>
#include <string_view>

namespace echelon::app::doctor {

/// Up to three numbers of a version; missing numbers are 0.
using Version = std::array<int, 3>;

/// The first version in `text`: "PMIx 4.2.2rc2" gives 4.2.2. Returns nothing if there is no digit.
[[nodiscard]] std::optional<Version> find_version(std::string_view text);

}  // namespace echelon::app::doctor
