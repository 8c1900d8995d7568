#pragma once
#include <cstdint>

#include "base/dtype.h"

/// Arguments of the kernels.
namespace echelon::kernels {

/// bfloat16 as stored: the upper half of an fp32.
struct Bf16 {
  std::uint16_t bits;
};

/// fp16 as stored.
struct Fp16 {
  std::uint16_t bits;
};

/// Attention's score matrix of one head and a block of queries: row r of `scores` holds columns [0, columns),
/// of which [begin(r), end(r)) count.
struct ScoreRows {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t first;       ///< column of the key at the position of row 0's query
  bool causal;              ///< columns > first + r are masked out
  float scale;              ///< factor on the scores
  const float* bias;        ///< added to the scaled score of row r, column c is bias[c - r]; null: nothing
  std::int64_t window = 0;  ///< columns <= first + r - window are masked out too; 0: none
  [[nodiscard]] std::int64_t begin(std::int64_t row) const {
    return window == 0 || first + row < window ? 0 : first + row + 1 - window;
  }
  [[nodiscard]] std::int64_t end(std::int64_t row) const {
    return !causal || first + row + 1 > columns ? columns : first + row + 1;
  }
};

/// The rows of a norm: `groups` groups of `rows` dense rows of n elements each. Groups begin `stride`
/// elements apart.
struct NormRows {
  std::int64_t rows;
  std::int64_t n;
  std::int64_t groups = 1;
  std::int64_t stride = 0;

  [[nodiscard]] std::int64_t numel() const { return groups * rows * n; }
};

/// Angles of rotary positions: row i turns by those at table + places[i] * width, cos (half) | sin (half).
/// `width`: elements of a head that turn, at most all. A null table, of width 0: no row turns.
struct RowAngles {
  const float* table = nullptr;
  const std::int64_t* places = nullptr;
  std::int64_t width = 0;

  [[nodiscard]] const float* of(std::int64_t row) const {
    return table == nullptr ? nullptr : table + places[row] * width;
  }
};

/// The random choice of a dropout. Element i of row r stays where the i-th 16-bit half of the Philox words of
/// (key, samples[r], places[r] * calls + i / 8) is at least `threshold`, with calls = ceil(row / 8).
struct DropoutValues {
  std::uint64_t key = 0;
  std::uint32_t threshold = 0;
  float factor = 1;
  const std::int64_t* samples = nullptr;  ///< [rows]
  const std::int64_t* places = nullptr;   ///< [rows]
};

/// Geometry of a fused query/key/value projection: a row of the projection holds `heads` query heads, then
/// `kv_heads` key heads, then `kv_heads` value heads, each of `head_dim` elements. Zero heads: it has none of
/// them.
struct QkvShape {
  std::int64_t seq_len;  ///< rows of one head in q, k and v
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
};

/// The numbers of one AdamW update (Loshchilov & Hutter).
struct AdamWValues {
  std::int64_t number = 1;  ///< 1-based
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  double gradient_factor = 1;  ///< gradients count as multiplied by this
};

/// The distribution of initial values: `value`, or `value` times a random number, normal or uniform in
/// [-1, 1), which is a pure function of `key` and the element's index.
struct InitialValues {
  enum class Kind : std::uint8_t { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  float value = 0;
  std::uint64_t key = 0;
};

}  // namespace echelon::kernels
