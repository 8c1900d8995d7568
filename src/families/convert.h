#pragma once
#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace echelon::families {

[[nodiscard]] bool is_floating(DType type);

/// Converts elements between floating-point types, rounding to nearest, ties to even; NaN stays NaN, too
/// large becomes infinite. `to` holds as many elements as `from`. Throws Error(kUsage) for a pair other than
/// any float -> fp32 or bf16.
void convert(std::span<const std::byte> from, DType from_type, std::span<std::byte> to, DType to_type);

}  // namespace echelon::families
