// Compiled for processors with AVX512-BF16, beside product_impl.cpp.
#include "model/kernels/product_pack.h"

namespace echelon::kernels::packing {
namespace {

using Source = MatrixView<const Bf16*>;

/// Rows k and k + 1 of 16 columns -> 16 pairs.
inline __m512i interleave(__m256i even, __m256i odd) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
}

/// One pair of rows with contiguous columns, cut into panels of kPanel columns that lie `stride` apart.
template <int kPanel>
inline void pack_pair(const Bf16* even, const Bf16* odd, std::int64_t columns, std::int64_t stride,
                      Bf16* to) {
  constexpr int kStep = std::min(kPanel, 16);
  for (std::int64_t n = 0; n < columns; n += kPanel, to += stride) {
    for (int i = 0; i < kPanel; i += kStep) {
      const __mmask16 mask = first_lanes(std::min<std::int64_t>(kStep, columns - n - i));
      const __m256i first = _mm256_maskz_loadu_epi16(mask, even + n + i);
      const __m256i second =
          odd == nullptr ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(mask, odd + n + i);
      _mm512_mask_storeu_epi32(to + 2 * i, static_cast<__mmask16>((1U << kStep) - 1U),
                               interleave(first, second));
    }
  }
}

inline void prefetch_row(const Bf16* row, std::int64_t columns) {
  for (std::int64_t n = 0; n < columns; n += 32)
    _mm_prefetch(reinterpret_cast<const char*>(row + n), _MM_HINT_T0);
}

/// [length, columns], contiguous along columns -> panels of kPanel columns.
template <int kPanel>
void pack_wide(const Source& source, std::int64_t columns, std::int64_t length, Bf16* to) {
  constexpr std::int64_t kAhead = 8;  // rows: too far apart for the hardware to prefetch them
  const std::int64_t stride = (length + 1) / 2 * 2 * kPanel;
  for (std::int64_t k = 0; k < length; k += 2, to += 2 * kPanel) {
    const Bf16* even = source.data + k * source.row_stride;
    if (k + 1 + kAhead < length) {
      prefetch_row(even + kAhead * source.row_stride, columns);
      prefetch_row(even + (kAhead + 1) * source.row_stride, columns);
    }
    pack_pair<kPanel>(even, k + 1 < length ? even + source.row_stride : nullptr, columns, stride, to);
  }
}

/// 16 vectors of 16 pairs -> their transpose.
inline void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xDD);
  }
}

/// Up to 32 elements of k of 16 columns, contiguous along k.
void pack_square(const Source& source, std::int64_t columns, std::int64_t length, std::int64_t panel,
                 Bf16* to) {
  __m512i r[16];
  const auto mask = length >= 32 ? __mmask32{0xFFFFFFFFU} : static_cast<__mmask32>((1U << length) - 1U);
  for (std::int64_t n = 0; n < 16; ++n) {
    r[n] = n < columns ? _mm512_maskz_loadu_epi16(mask, source.data + n * source.column_stride)
                       : _mm512_setzero_si512();
  }
  transpose(r);
  const std::int64_t pairs = std::min<std::int64_t>(16, (length + 1) / 2);
  for (std::int64_t kp = 0; kp < pairs; ++kp) _mm512_store_si512(to + kp * 2 * panel, r[kp]);
}

/// [length, columns], contiguous along k -> panels of kColumns.
void pack_tall(const Source& source, std::int64_t columns, std::int64_t length, Bf16* to) {
  const std::int64_t pairs = (length + 1) / 2;
  const std::int64_t width = (columns + kColumns - 1) / kColumns * kColumns;
  for (std::int64_t n = 0; n < width; n += 16) {
    Bf16* panel = to + n / kColumns * kColumns * 2 * pairs + n % kColumns * 2;
    for (std::int64_t k = 0; k < length; k += 32) {
      Source corner = source;
      corner.data += n * source.column_stride + k;
      pack_square(corner, columns - n, length - k, kColumns, panel + k * kColumns);
    }
  }
}

/// One strip of rows, contiguous along k: the last one of a, or all if k is odd.
void pack_strip(const Source& a, std::int64_t rows, std::int64_t length, Bf16* to) {
  const std::int64_t padded = (length + 1) / 2 * 2;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t k = 0; k < padded; ++k) {
      to[k / 2 * 2 * kRows + 2 * r + k % 2] = r < rows && k < length ? a.data[r * a.row_stride + k] : Bf16{0};
    }
  }
}

}  // namespace

void pack_rows(const MatrixView<const Bf16*>& a, std::int64_t rows, std::int64_t length, Bf16* to) {
  if (a.column_stride != 1) {
    pack_wide<kRows>(a.transposed(), rows, length, to);
    return;
  }
  const std::int64_t padded = (length + 1) / 2 * 2;
  for (std::int64_t r = 0; r < rows; r += kRows, to += kRows * padded) {
    Source strip = a;
    strip.data += r * a.row_stride;
    pack_strip(strip, std::min<std::int64_t>(kRows, rows - r), length, to);
  }
}

void pack_columns(const MatrixView<const Bf16*>& b, std::int64_t columns, std::int64_t length, Bf16* to) {
  if (b.column_stride == 1) {
    pack_wide<kColumns>(b, columns, length, to);
  } else {
    pack_tall(b, columns, length, to);
  }
}

}  // namespace echelon::kernels::packing
