#pragma once
#include <cstdint>

#include "model/kernels/product.h"

/// Packs operands in the order in which the product's inner loop reads them; k in pairs, as the instruction
/// vdpbf16ps needs them, an odd end padded with zero. For product_impl.cpp.
namespace echelon::kernels::packing {

constexpr int kRows = 8;     ///< of a tile of c
constexpr int kVectors = 3;  ///< of 16 columns
constexpr int kColumns = 16 * kVectors;

/// a [rows, length] -> [strip of kRows][pair][row][2], the last strip filled up with zeros.
void pack_rows(const MatrixView<const Bf16*>& a, std::int64_t rows, std::int64_t length, Bf16* to);

/// b [length, columns] -> [panel of kColumns][pair][column][2], 64-byte aligned; missing columns are zero.
void pack_columns(const MatrixView<const Bf16*>& b, std::int64_t columns, std::int64_t length, Bf16* to);

}  // namespace echelon::kernels::packing
