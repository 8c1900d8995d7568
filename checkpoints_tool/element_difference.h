#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace echelon::tool {

/// The difference between two runs of elements of one type.
struct ElementDifference {
  std::uint64_t elements = 0;  ///< that differ in any bit
  std::uint64_t incomparable =
      0;  ///< of these: a NaN, or an infinity against another value; not in what follows
  double max_abs = 0;
  std::uint64_t max_ulp = 0;  ///< representable numbers from one to the other; for integers their distance
};

/// Adds what `a` and `b` (of equal size, whole elements) differ by to `difference`.
void compare_elements(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype,
                      ElementDifference& difference);

}  // namespace echelon::tool
