// One source, compiled once per instruction set: ECHELON_ISA names the namespace, -march comes from CMake.
// All arithmetic is in fp32, whatever the element type: bf16 and fp16 are widened when loaded and rounded
// once when stored. Sums over a row would lose digits in two bytes.
#ifdef __F16C__
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>

#include "base/philox.h"
#include "model/kernels/elements.h"
#include "model/kernels/softmax.h"
#include "model/kernels/tables.h"

namespace echelon::kernels::ECHELON_ISA {
namespace {

template <class T>
void rms_norm(const T* x, const T* w, T* y, float* inv_rms, std::int64_t rows, std::int64_t n, float eps) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += load(x[i]) * load(x[i]);
    const float inv = 1.0F / std::sqrt(sum / static_cast<float>(n) + eps);
    inv_rms[r] = inv;
    for (std::int64_t i = 0; i < n; ++i) store(y[i], load(x[i]) * inv * load(w[i]));
  }
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* w, const float* inv_rms, T* dx, float* dw_sum,
                       std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
    const float inv = inv_rms[r];
    float dot = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const float g = load(dy[i]) * load(x[i]);
      dot += g * load(w[i]);
      dw_sum[i] += g * inv;
    }
    // y = x w r with r = (mean(x^2) + eps)^(-1/2), so dr/dx_i = -r^3 x_i / n: the second term of dx.
    const float correction = dot * inv * inv * inv / static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      store(dx[i], load(dy[i]) * load(w[i]) * inv - load(x[i]) * correction);
    }
  }
}

template <class T>
void layer_norm(const T* x, const T* w, const T* b, T* y, float* statistics, std::int64_t rows,
                std::int64_t n, float eps) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += load(x[i]);
    const float mean = sum / static_cast<float>(n);
    float squares = 0;  // two passes: E[x^2] - E[x]^2 would cancel
    for (std::int64_t i = 0; i < n; ++i) squares += (load(x[i]) - mean) * (load(x[i]) - mean);
    const float inv = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
    statistics[2 * r] = mean;
    statistics[2 * r + 1] = inv;
    for (std::int64_t i = 0; i < n; ++i) store(y[i], (load(x[i]) - mean) * inv * load(w[i]) + load(b[i]));
  }
}

template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* w, const float* statistics, T* dx, float* dw_sum,
                         float* db_sum, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
    const float mean = statistics[2 * r];
    const float inv = statistics[2 * r + 1];
    float sum = 0;
    float dot = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const float normal = (load(x[i]) - mean) * inv;
      const float g = load(dy[i]);
      sum += g * load(w[i]);
      dot += g * load(w[i]) * normal;
      dw_sum[i] += g * normal;
      db_sum[i] += g;
    }
    // With normal = (x - mean) inv, the gradient is inv times what is left of dy w without its mean and
    // without its component along normal.
    const float mean_gradient = sum / static_cast<float>(n);
    const float correction = dot / static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const float normal = (load(x[i]) - mean) * inv;
      store(dx[i], (load(dy[i]) * load(w[i]) - mean_gradient - normal * correction) * inv);
    }
  }
}

template <class T>
void bias_gelu(const T* x, const T* b, T* y, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    for (std::int64_t i = 0; i < n; ++i) {
      store(y[i], GeluTanh::at(load(x[i]) + load(b[i])).value);
    }
  }
}

template <class T>
void bias_gelu_backward(const T* dy, const T* x, const T* b, T* dx, float* db_sum, std::int64_t rows,
                        std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float d = load(dy[i]) * GeluTanh::at(load(x[i]) + load(b[i])).slope;
      store(dx[i], d);
      db_sum[i] += d;
    }
  }
}

template <class Activation, class T>
void gated(const T* gate_up, T* out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * n, out += n) {
    const T* up = gate_up + n;
    for (std::int64_t i = 0; i < n; ++i) store(out[i], Activation::at(load(gate_up[i])).value * load(up[i]));
  }
}

template <class Activation, class T>
void gated_backward_row(const T* __restrict gate, const T* __restrict up, const T* __restrict dout,
                        T* __restrict dgate, T* __restrict dup, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Activated activated = Activation::at(load(gate[i]));
    const float d = load(dout[i]);
    store(dgate[i], d * load(up[i]) * activated.slope);
    store(dup[i], d * activated.value);
  }
}

template <class Activation, class T>
void gated_backward(const T* gate_up, const T* dout, T* dgate_up, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * n, dgate_up += 2 * n, dout += n) {
    gated_backward_row<Activation>(gate_up, gate_up + n, dout, dgate_up, dgate_up + n, n);
  }
}

template <class T>
void relu(T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store(x[i], load(x[i]) < 0.0F ? 0.0F : load(x[i]));
}

template <class T>
void relu_backward(const T* y, const T* dy, T* dx, std::int64_t n, float factor) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float kept = load(dy[i]) * factor;  // before the choice: GCC makes no vectors of conditional loads
    store(dx[i], load(y[i]) > 0.0F ? kept : 0.0F);
  }
}

/// Rotates one head by the angle of its position (RoPE, Su et al., 2021), pairing element i with i + d/2 as
/// transformers' Llama does. `sign` -1 is the inverse, which is also the transpose: the backward pass.
template <class T>
void rotate(const T* from, T* to, const float* angle, std::int64_t d, float sign) {
  if (angle == nullptr) {
    std::copy(from, from + d, to);
    return;
  }
  const std::int64_t half = d / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = load(from[i]);
    const float b = load(from[i + half]);
    const float c = angle[i];
    const float s = sign * angle[i + half];
    store(to[i], a * c - b * s);
    store(to[i + half], b * c + a * s);
  }
}

template <class T>
void rope_split(const T* row, T* q, T* k, T* v, const float* angle, std::int64_t row_number, QkvShape shape) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t head_stride = shape.seq_len * d;
  const std::int64_t at = row_number * d;
  for (std::int64_t h = 0; h < shape.heads; ++h, row += d)
    rotate(row, q + h * head_stride + at, angle, d, 1.0F);
  for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
    rotate(row, k + h * head_stride + at, angle, d, 1.0F);
  for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
    std::copy(row, row + d, v + h * head_stride + at);
}

template <class T>
void rope_merge(T* row, const T* dq, const T* dk, const T* dv, const float* angle, std::int64_t row_number,
                QkvShape shape) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t head_stride = shape.seq_len * d;
  const std::int64_t at = row_number * d;
  for (std::int64_t h = 0; h < shape.heads; ++h, row += d)
    rotate(dq + h * head_stride + at, row, angle, d, -1.0F);
  for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
    rotate(dk + h * head_stride + at, row, angle, d, -1.0F);
  for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
    std::copy(dv + h * head_stride + at, dv + h * head_stride + at + d, row);
}

template <class T>
void dropout(const T* x, T* y, std::int64_t n, std::uint64_t key, std::uint64_t counter_low,
             std::uint64_t counter_high, std::uint32_t threshold, float factor) {
  constexpr std::int64_t kHalves = 8;  // 16-bit halves of the four words of a call
  constexpr std::int64_t kCalls = 16;  // computed together, one per vector lane
  std::array<std::uint32_t, 4> words[kCalls];
  std::uint16_t halves[kCalls * kHalves];
  for (std::int64_t begin = 0; begin < n; begin += kCalls * kHalves, counter_low += kCalls) {
    for (std::uint64_t c = 0; c < kCalls; ++c) words[c] = philox4x32(key, counter_low + c, counter_high);
    for (std::int64_t c = 0; c < kCalls; ++c) {
      for (std::int64_t i = 0; i < kHalves; ++i)
        halves[c * kHalves + i] = static_cast<std::uint16_t>(words[c][i / 2] >> (16 * (i % 2)));
    }
    const std::int64_t width = std::min(kCalls * kHalves, n - begin);
    for (std::int64_t i = 0; i < width; ++i) {
      const float kept = load(x[begin + i]) * factor;  // as in relu_backward()
      store(y[begin + i], halves[i] < threshold ? 0.0F : kept);
    }
  }
}

template <class T>
void sum_rows(const T* source, const std::int64_t* rows, std::int64_t count, T* out, std::int64_t n,
              bool add) {
  constexpr std::int64_t kBlock = 256;
  float sum[kBlock];
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t width = std::min(kBlock, n - begin);
    for (std::int64_t i = 0; i < width; ++i) sum[i] = add ? load(out[begin + i]) : 0.0F;
    for (std::int64_t r = 0; r < count; ++r) {
      const T* row = source + rows[r] * n + begin;
      for (std::int64_t i = 0; i < width; ++i) sum[i] += load(row[i]);
    }
    for (std::int64_t i = 0; i < width; ++i) store(out[begin + i], sum[i]);
  }
}

/// Elements converted with instructions that only compiler intrinsics reach, from the first one on; the rest
/// goes one by one.
template <class T>
std::int64_t widened_ahead(const T*, float*, std::int64_t) {
  return 0;
}
template <class T>
std::int64_t rounded_ahead(const float*, T*, std::int64_t) {
  return 0;
}
#ifdef __F16C__  // every processor with AVX2 has it
std::int64_t widened_ahead(const Fp16* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  return i;
}
std::int64_t rounded_ahead(const float* from, Fp16* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i);
    // float_to_half() knows one NaN of each sign; the instruction would keep more of its bits.
    const __m256 nan = _mm256_or_ps(_mm256_and_ps(value, _mm256_set1_ps(-0.0F)),
                                    _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)));
    const __m256 one_nan = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(one_nan, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
#endif

template <class T>
void to_float(const T* from, float* to, std::int64_t n) {
  for (std::int64_t i = widened_ahead(from, to, n); i < n; ++i) to[i] = load(from[i]);
}

template <class T>
void from_float(const float* from, T* to, std::int64_t n) {
  for (std::int64_t i = rounded_ahead(from, to, n); i < n; ++i) store(to[i], from[i]);
}

template <class T>
constexpr Table<T> make_table() {
  return {.rms_norm = rms_norm<T>,
          .rms_norm_backward = rms_norm_backward<T>,
          .layer_norm = layer_norm<T>,
          .layer_norm_backward = layer_norm_backward<T>,
          .bias_gelu = bias_gelu<T>,
          .bias_gelu_backward = bias_gelu_backward<T>,
          .swiglu = gated<Silu, T>,
          .swiglu_backward = gated_backward<Silu, T>,
          .geglu = gated<GeluTanh, T>,
          .geglu_backward = gated_backward<GeluTanh, T>,
          .relu = relu<T>,
          .relu_backward = relu_backward<T>,
          .softmax_cross_entropy = softmax_cross_entropy<T>,
          .cross_entropy = cross_entropy<T>,
          .attention_softmax = attention_softmax<T>,
          .attention_probabilities = attention_probabilities<T>,
          .attention_softmax_backward = attention_softmax_backward<T>,
          .row_dots = row_dots<T>,
          .rope_split = rope_split<T>,
          .rope_merge = rope_merge<T>,
          .sum_rows = sum_rows<T>,
          .dropout = dropout<T>,
          .to_float = to_float<T>,
          .from_float = from_float<T>};
}

double sum_of_squares(const float* values, std::int64_t n) {
  constexpr std::int64_t kBlock = 4096;
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    float sum = 0;
    // fp32 within a block vectorises; fp64 over the blocks keeps the error independent of the size.
    for (std::int64_t i = begin; i < end; ++i) sum += values[i] * values[i];
    total += static_cast<double>(sum);
  }
  return total;
}

}  // namespace

const Tables tables{make_table<float>(), make_table<Bf16>(), make_table<Fp16>(), sum_of_squares};

}  // namespace echelon::kernels::ECHELON_ISA
