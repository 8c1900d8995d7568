#pragma once
#include <cstdint>
#include <string>

namespace echelon::recipe {

/// The multiples of `unit` next to `value`: "768 or 780". The first two multiples if none is below `value`.
[[nodiscard]] std::string nearest_multiples(std::int64_t value, std::int64_t unit);

/// The divisors of `value`, at most twenty of them: "1, 2, 3, 6".
[[nodiscard]] std::string divisors_of(std::int64_t value);

}  // namespace echelon::recipe
