// Compiled for processors with AVX512-BF16; only product_kernel() of dispatch.cpp leads here.
#include <algorithm>
#include <cstring>

#include "model/kernels/product_pack.h"
#include "model/kernels/tables.h"

namespace echelon::kernels {
namespace {

using packing::first_lanes;
using packing::kColumns;
using packing::kRows;
using packing::kVectors;

/// Elements of b packed at a time, 400 KiB: they stay in the second-level cache while all rows of a are
/// multiplied with them (the blocking of Goto and van de Geijn, "Anatomy of High-Performance Matrix
/// Multiplication", 2008).
constexpr std::int64_t kBlockElements = 200 * 1024;
/// A longer k is cut into pieces; partial sums stay in fp32 between them.
constexpr std::int64_t kLongestSum = 6144;
constexpr std::int64_t kTileElements = kRows * kColumns;

/// The blocks into which a product is cut.
struct Plan {
  std::int64_t pieces;         ///< of k
  std::int64_t piece;          ///< k of a piece, even; the last one may be shorter
  std::int64_t block_columns;  ///< of b packed together, a multiple of kColumns
  bool pack_a;                 ///< a is not contiguous along k, so it is packed, too
};

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Plan plan_of(const Product<Bf16>& p) {
  Plan plan{};
  plan.pieces = (p.k + kLongestSum - 1) / kLongestSum;
  plan.piece = round_up((p.k + plan.pieces - 1) / plan.pieces, 2);
  const std::int64_t fits = std::max<std::int64_t>(1, kBlockElements / (plan.piece * kColumns));
  plan.block_columns = std::min(fits * kColumns, round_up(p.n, kColumns));
  plan.pack_a = p.a.column_stride != 1 || p.k % 2 != 0;
  return plan;
}

struct Workspace {
  Bf16* b;     ///< [panel][k pair][column][2]
  Bf16* a;     ///< [strip][k pair][row][2]: the whole of a piece, or the last strip only
  float* sum;  ///< [tile][row][column], with more than one piece
  std::size_t bytes;
};

Workspace lay_out(const Product<Bf16>& p, const Plan& plan, std::byte* memory) {
  const std::int64_t strips = (p.m + kRows - 1) / kRows;
  const auto b_elements = static_cast<std::size_t>(plan.block_columns * plan.piece);
  const auto a_elements = static_cast<std::size_t>((plan.pack_a ? strips : 1) * kRows * plan.piece);
  const auto tiles = static_cast<std::size_t>(strips * (round_up(p.n, kColumns) / kColumns));
  const std::size_t b_bytes = b_elements * sizeof(Bf16);
  const std::size_t a_bytes = (a_elements * sizeof(Bf16) + 63) / 64 * 64;
  const std::size_t sum_bytes = plan.pieces > 1 ? tiles * kTileElements * sizeof(float) : 0;
  return {reinterpret_cast<Bf16*>(memory), reinterpret_cast<Bf16*>(memory + b_bytes),
          reinterpret_cast<float*>(memory + b_bytes + a_bytes), b_bytes + a_bytes + sum_bytes};
}

/// Rows of a as the inner loop reads them: pair kp of row r is at data + r * row + kp * pair.
struct Strip {
  const Bf16* data;
  std::int64_t row;
  std::int64_t pair;
};

using Accumulators = __m512[kRows][kVectors];

inline __m512bh broadcast_pair(const Bf16* from) {
  std::int32_t pair;
  std::memcpy(&pair, from, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

/// Prefetches the next strip's cache lines for 16 pairs; there are eight in either orientation.
inline void prefetch_rows(const Strip& next, std::int64_t pair) {
  const Bf16* at = next.data + pair * next.pair;
  const std::int64_t step = next.pair == 2 ? next.row : 32;
  for (std::int64_t r = 0; r < kRows; ++r)
    _mm_prefetch(reinterpret_cast<const char*>(at + r * step), _MM_HINT_T0);
}

/// acc += strip * panel: nearly all time is spent here. 24 sums stay in registers (of 32); a step of k costs
/// 3 loads of b and 8 broadcasts of a for 24 dot products. b is read in memory order, which the hardware
/// prefetches; prefetching it here as well costs 4 %.
inline void multiply(const Strip& a, const Strip& next, const Bf16* b, std::int64_t pairs,
                     Accumulators& acc) {
  const std::int64_t row = a.row;
  const Bf16* a0 = a.data;
  const Bf16* a3 = a0 + 3 * row;
  const Bf16* a6 = a0 + 6 * row;
  for (std::int64_t block = 0; block < pairs; block += 16) {
    prefetch_rows(next, block);
    const std::int64_t end = std::min<std::int64_t>(16, pairs - block);
    for (std::int64_t i = 0; i < end; ++i) {
      __m512bh column[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        column[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(b + 32 * v));
      const Bf16* rows[kRows] = {a0, a0 + row, a0 + 2 * row, a3, a3 + row, a3 + 2 * row, a6, a6 + row};
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m512bh value = broadcast_pair(rows[r]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], value, column[v]);
      }
      b += 2 * kColumns;
      a0 += a.pair;
      a3 += a.pair;
      a6 += a.pair;
    }
  }
}

/// Where a tile goes: c's element (r, n) at data + r * row + n * column.
struct Tile {
  Bf16* data;
  std::int64_t row;
  std::int64_t column;
  std::int64_t rows;
  std::int64_t columns;
  bool accumulate;
};

inline __m512 widen(__m256i bf16) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}
inline __m256i narrow(__m512 values) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values));
}

inline void store_rows(const Accumulators& acc, const Tile& tile) {
  // Unrolled, so that the sums are stored from registers and not through a copy in memory.
#pragma GCC unroll 8
  for (std::int64_t r = 0; r < kRows; ++r) {
    if (r >= tile.rows) break;
    Bf16* to = tile.data + r * tile.row;
    if (tile.columns >= kColumns && !tile.accumulate) {  // masked stores are slow
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * v), narrow(acc[r][v]));
      continue;
    }
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 mask = first_lanes(tile.columns - 16 * v);
      __m512 values = acc[r][v];
      if (tile.accumulate) values = _mm512_add_ps(values, widen(_mm256_maskz_loadu_epi16(mask, to + 16 * v)));
      _mm256_mask_storeu_epi16(to + 16 * v, mask, narrow(values));
    }
  }
}

/// Element by element: edges of a result with contiguous columns.
void store_any(const float* values, const Tile& tile) {
  for (std::int64_t n = 0; n < tile.columns; ++n) {
    for (std::int64_t r = 0; r < tile.rows; ++r) {
      Bf16& to = tile.data[r * tile.row + n * tile.column];
      float value = values[r * kColumns + n];
      if (tile.accumulate) value += _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(to.bits << 16)));
      to.bits = static_cast<std::uint16_t>(
          _mm_extract_epi16(reinterpret_cast<__m128i>(_mm_cvtneps_pbh(_mm_set_ss(value))), 0));
    }
  }
}

inline __m512i pair_rows(__m512 even, __m512 odd) {
  const __m512i low = _mm512_cvtepu16_epi32(narrow(even));
  return _mm512_or_si512(low, _mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow(odd)), 16));
}

/// Four columns, 4 apart, of eight bf16 each.
inline void store_quarters(__m512i columns, Bf16* to, std::int64_t stride) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(columns));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * stride), _mm512_extracti32x4_epi32(columns, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8 * stride), _mm512_extracti32x4_epi32(columns, 2));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 12 * stride), _mm512_extracti32x4_epi32(columns, 3));
}

/// A full tile with contiguous columns, transposed in registers.
inline void store_columns(const Accumulators& acc, const Tile& tile) {
  for (int v = 0; v < kVectors; ++v) {
    const __m512i r01 = pair_rows(acc[0][v], acc[1][v]);
    const __m512i r23 = pair_rows(acc[2][v], acc[3][v]);
    const __m512i r45 = pair_rows(acc[4][v], acc[5][v]);
    const __m512i r67 = pair_rows(acc[6][v], acc[7][v]);
    const __m512i low03 = _mm512_unpacklo_epi32(r01, r23);
    const __m512i high03 = _mm512_unpackhi_epi32(r01, r23);
    const __m512i low47 = _mm512_unpacklo_epi32(r45, r67);
    const __m512i high47 = _mm512_unpackhi_epi32(r45, r67);
    Bf16* to = tile.data + 16 * v * tile.column;
    store_quarters(_mm512_unpacklo_epi64(low03, low47), to, tile.column);
    store_quarters(_mm512_unpackhi_epi64(low03, low47), to + tile.column, tile.column);
    store_quarters(_mm512_unpacklo_epi64(high03, high47), to + 2 * tile.column, tile.column);
    store_quarters(_mm512_unpackhi_epi64(high03, high47), to + 3 * tile.column, tile.column);
  }
}

/// 16 columns of four rows -> to[q][4 l ..]: the four values of column 4 l + q.
inline void quarter(const float* from, float (&to)[4][16]) {
  const __m512 r0 = _mm512_load_ps(from);
  const __m512 r1 = _mm512_load_ps(from + kColumns);
  const __m512 r2 = _mm512_load_ps(from + 2 * kColumns);
  const __m512 r3 = _mm512_load_ps(from + 3 * kColumns);
  const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
  const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
  const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
  const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
  _mm512_store_pd(to[0], _mm512_unpacklo_pd(low01, low23));
  _mm512_store_pd(to[1], _mm512_unpackhi_pd(low01, low23));
  _mm512_store_pd(to[2], _mm512_unpacklo_pd(high01, high23));
  _mm512_store_pd(to[3], _mm512_unpackhi_pd(high01, high23));
}

/// Adds a full tile to the result, with contiguous columns.
void add_columns(const float* values, const Tile& tile) {
  alignas(64) float first[4][16];
  alignas(64) float last[4][16];
  Bf16* to = tile.data;
  for (int v = 0; v < kVectors; ++v) {
    quarter(values + 16 * v, first);
    quarter(values + 4 * kColumns + 16 * v, last);
    for (int n = 0; n < 16; ++n, to += tile.column) {
      const __m256 sum =
          _mm256_set_m128(_mm_load_ps(last[n % 4] + n / 4 * 4), _mm_load_ps(first[n % 4] + n / 4 * 4));
      auto* const eight = reinterpret_cast<__m128i*>(to);
      const __m256i old = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(eight)), 16);
      const __m128bh rounded = _mm256_cvtneps_pbh(_mm256_add_ps(sum, _mm256_castsi256_ps(old)));
      _mm_storeu_si128(eight, reinterpret_cast<__m128i>(rounded));
    }
  }
}

/// Not inlined: otherwise the compiler would not keep the sums of the common cases in registers.
[[gnu::noinline]] void store_rarer(const float* values, const Tile& tile) {
  if (tile.row == 1 && tile.rows == kRows && tile.columns == kColumns) {
    add_columns(values, tile);
  } else {
    store_any(values, tile);
  }
}

inline void spill(const Accumulators& acc, float* to) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(to + r * kColumns + 16 * v, acc[r][v]);
  }
}

inline void store(const Accumulators& acc, const Tile& tile) {
  if (tile.column == 1) {
    store_rows(acc, tile);
  } else if (tile.row == 1 && tile.rows == kRows && tile.columns == kColumns && !tile.accumulate) {
    store_columns(acc, tile);
  } else {
    alignas(64) float values[kTileElements];
    spill(acc, values);
    store_rarer(values, tile);
  }
}

/// One piece of k of the whole product.
class Piece {
 public:
  Piece(const Product<Bf16>& product, const Plan& plan, const Workspace& space, std::int64_t number)
      : p_(product),
        plan_(plan),
        space_(space),
        begin_(number * plan.piece),
        length_(std::min(plan.piece, product.k - begin_)),
        pairs_((length_ + 1) / 2),
        strips_((product.m + kRows - 1) / kRows),
        first_(number == 0),
        last_(number == plan.pieces - 1) {}

  void run() const {
    if (plan_.pack_a) {
      packing::pack_rows(rows_from(0), p_.m, length_, space_.a);
    } else if (p_.m % kRows != 0) {
      packing::pack_rows(rows_from((strips_ - 1) * kRows), p_.m % kRows, length_, space_.a);
    }
    for (std::int64_t n = 0; n < p_.n; n += plan_.block_columns) {
      const std::int64_t columns = std::min(plan_.block_columns, p_.n - n);
      MatrixView<const Bf16*> b = p_.b;
      b.data += begin_ * b.row_stride + n * b.column_stride;
      packing::pack_columns(b, columns, length_, space_.b);
      for (std::int64_t s = 0; s < strips_; ++s) {
        for (std::int64_t at = 0; at < columns; at += kColumns) compute_tile(s, n + at, at);
      }
    }
  }

 private:
  [[nodiscard]] MatrixView<const Bf16*> rows_from(std::int64_t row) const {
    MatrixView<const Bf16*> a = p_.a;
    a.data += row * a.row_stride + begin_ * a.column_stride;
    return a;
  }

  [[nodiscard]] Strip strip(std::int64_t s) const {
    if (plan_.pack_a) return {space_.a + s * kRows * 2 * pairs_, 2, 2 * kRows};
    if ((s + 1) * kRows > p_.m) return {space_.a, 2, 2 * kRows};
    return {rows_from(s * kRows).data, p_.a.row_stride, 2};
  }

  /// `n`: first column; `at`: the same within the packed block.
  void compute_tile(std::int64_t s, std::int64_t n, std::int64_t at) const {
    const std::int64_t panels = (p_.n + kColumns - 1) / kColumns;
    float* sum = space_.sum + (s * panels + n / kColumns) * kTileElements;
    Accumulators acc;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = first_ ? _mm512_setzero_ps() : _mm512_load_ps(sum + r * kColumns + 16 * v);
      }
    }
    multiply(strip(s), strip(std::min(s + 1, strips_ - 1)), space_.b + at * 2 * pairs_, pairs_, acc);
    if (!last_) {
      spill(acc, sum);
      return;
    }
    store(acc, {p_.c.data + s * kRows * p_.c.row_stride + n * p_.c.column_stride, p_.c.row_stride,
                p_.c.column_stride, std::min<std::int64_t>(kRows, p_.m - s * kRows),
                std::min<std::int64_t>(kColumns, p_.n - n), p_.accumulate});
  }

  const Product<Bf16>& p_;
  const Plan& plan_;
  const Workspace& space_;
  std::int64_t begin_;
  std::int64_t length_;
  std::int64_t pairs_;
  std::int64_t strips_;
  bool first_;
  bool last_;
};

/// Every block of b is multiplied with all rows of a, and a non-contiguous a is packed as a whole: the larger
/// operand should be b. Swaps them by c^T = b^T a^T.
Product<Bf16> with_small_a(const Product<Bf16>& p) {
  if (p.a.column_stride == 1 || p.m <= p.n) return p;
  return {p.n, p.m, p.k, p.b.transposed(), p.a.transposed(), p.c.transposed(), p.accumulate};
}

std::size_t workspace(const Product<Bf16>& product) {
  const Product<Bf16> p = with_small_a(product);
  return lay_out(p, plan_of(p), nullptr).bytes;
}

void run(const Product<Bf16>& product, std::byte* memory) {
  const Product<Bf16> p = with_small_a(product);
  const Plan plan = plan_of(p);
  const Workspace space = lay_out(p, plan, memory);
  for (std::int64_t number = 0; number < plan.pieces; ++number) Piece(p, plan, space, number).run();
}

}  // namespace

const ProductKernel<Bf16> avx512_bf16_product{workspace, run};

}  // namespace echelon::kernels
