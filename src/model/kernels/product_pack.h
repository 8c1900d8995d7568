#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "model/kernels/product.h"

/// Packs operands in the order in which the product's inner loop reads them; k in pairs, as the instruction
/// vdpbf16ps needs them, an odd end padded with zero. For product_impl.cpp.
namespace echelon::kernels::packing {

constexpr int kRows = 8;     ///< of a tile of c
constexpr int kVectors = 3;  ///< of 16 columns
constexpr int kColumns = 16 * kVectors;

/// The mask of the first `count` of 16 lanes.
inline __mmask16 first_lanes(std::int64_t count) {
  return count >= 16 ? __mmask16{0xFFFF}
                     : static_cast<__mmask16>((1U << std::max<std::int64_t>(count, 0)) - 1U);
}

/// a [rows, length] -> [strip of kRows][pair][row][2], the last strip filled up with zeros.
void pack_rows(const MatrixView<const Bf16*>& a, std::int64_t rows, std::int64_t length, Bf16* to);

/// b [length, columns] -> [panel of kColumns][pair][column][2], 64-byte aligned; missing columns are zero.
void pack_columns(const MatrixView<const Bf16*>& b, std::int64_t columns, std::int64_t length, Bf16* to);

}  // namespace echelon::kernels::packing
