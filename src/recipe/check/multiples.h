#pragma once
#include <cstdint>
#include <string>

namespace echelon::recipe {

/// The multiples of `unit` around `value`, or the first two when there is none below: "768 or 780".
[[nodiscard]] std::string nearest_multiples(std::int64_t value, std::int64_t unit);

/// The divisors of `value`, at most twenty: "1, 2, 3, 6".
[[nodiscard]] std::string divisors_of(std::int64_t value);

}  // namespace echelon::recipe
