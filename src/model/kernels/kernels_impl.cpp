// One source, compiled once per instruction set: ECHELON_ISA names the namespace, -march comes from CMake.
// All arithmetic is in fp32, whatever the element type: bf16 and fp16 are widened when loaded and rounded
// when stored. Sums over a row would lose digits in two bytes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/philox.h"
#include "model/kernels/attention_softmax.h"
#include "model/kernels/chunks.h"
#include "model/kernels/elements.h"
#include "model/kernels/rms_norm.h"
#include "model/kernels/softmax.h"
#include "model/kernels/tables.h"

namespace echelon::kernels::ECHELON_ISA {
namespace {

template <class T>
void layer_norm(const T* x, const T* w, const T* b, T* y, float* statistics, std::int64_t rows,
                std::int64_t n, float eps) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    float sum = 0;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> xs(x + begin, width);
      for (std::int64_t i = 0; i < width; ++i) sum += xs[i];
    }
    const float mean = sum / static_cast<float>(n);
    float squares = 0;  // two passes: E[x^2] - E[x]^2 would cancel
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> xs(x + begin, width);
      for (std::int64_t i = 0; i < width; ++i) squares += (xs[i] - mean) * (xs[i] - mean);
    }
    const float inv = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
    statistics[2 * r] = mean;
    statistics[2 * r + 1] = inv;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> ws(w + begin, width);
      const Loaded<T> bs(b + begin, width);
      Stored<T> ys(y + begin, width);
      for (std::int64_t i = 0; i < width; ++i) ys.set(i, (xs[i] - mean) * inv * ws[i] + bs[i]);
    }
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
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> dys(dy + begin, width);
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> ws(w + begin, width);
      for (std::int64_t i = 0; i < width; ++i) {
        const float normal = (xs[i] - mean) * inv;
        const float g = dys[i];
        sum += g * ws[i];
        dot += g * ws[i] * normal;
        if (dw_sum != nullptr) dw_sum[begin + i] += g * normal;
        if (db_sum != nullptr) db_sum[begin + i] += g;
      }
    }
    // With normal = (x - mean) inv, the gradient is inv times what is left of dy w without its mean and
    // without its component along normal.
    const float mean_gradient = sum / static_cast<float>(n);
    const float correction = dot / static_cast<float>(n);
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> dys(dy + begin, width);
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> ws(w + begin, width);
      Stored<T> dxs(dx + begin, width);
      for (std::int64_t i = 0; i < width; ++i) {
        const float normal = (xs[i] - mean) * inv;
        dxs.set(i, (dys[i] * ws[i] - mean_gradient - normal * correction) * inv);
      }
    }
  }
}

template <class T>
void bias_gelu(const T* x, const T* b, T* y, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n) {
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> bs(b + begin, width);
      Stored<T> ys(y + begin, width);
      for (std::int64_t i = 0; i < width; ++i) ys.set(i, GeluTanh::at(xs[i] + bs[i]).value);
    }
  }
}

/// Apart for a trained and for a frozen bias: GCC does not take so long a loop apart itself.
template <bool kTrained, class T>
void bias_gelu_backward_row(const T* dy, const T* x, const T* b, T* dx, float* db_sum, std::int64_t n) {
  for (const auto [begin, width] : Chunks<T>(n)) {
    const Loaded<T> dys(dy + begin, width);
    const Loaded<T> xs(x + begin, width);
    const Loaded<T> bs(b + begin, width);
    Stored<T> dxs(dx + begin, width);
    for (std::int64_t i = 0; i < width; ++i) {
      const float d = dys[i] * GeluTanh::at(xs[i] + bs[i]).slope;
      dxs.set(i, d);
      if constexpr (kTrained) db_sum[begin + i] += d;
    }
  }
}

template <class T>
void bias_gelu_backward(const T* dy, const T* x, const T* b, T* dx, float* db_sum, std::int64_t rows,
                        std::int64_t n) {
  const auto row = db_sum != nullptr ? bias_gelu_backward_row<true, T> : bias_gelu_backward_row<false, T>;
  for (std::int64_t r = 0; r < rows; ++r) row(dy + r * n, x + r * n, b, dx + r * n, db_sum, n);
}

template <class Activation, class T>
void gated(const T* gate_up, T* out, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * n, out += n) {
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> gates(gate_up + begin, width);
      const Loaded<T> ups(gate_up + n + begin, width);
      Stored<T> outs(out + begin, width);
      for (std::int64_t i = 0; i < width; ++i) outs.set(i, Activation::at(gates[i]).value * ups[i]);
    }
  }
}

template <class Activation, class T>
void gated_backward_row(const T* __restrict gate, const T* __restrict up, const T* __restrict dout,
                        T* __restrict dgate, T* __restrict dup, std::int64_t n) {
  for (const auto [begin, width] : Chunks<T>(n)) {
    const Loaded<T> gates(gate + begin, width);
    const Loaded<T> ups(up + begin, width);
    const Loaded<T> douts(dout + begin, width);
    Stored<T> dgates(dgate + begin, width);
    Stored<T> dups(dup + begin, width);
    for (std::int64_t i = 0; i < width; ++i) {
      const Activated activated = Activation::at(gates[i]);
      dgates.set(i, douts[i] * ups[i] * activated.slope);
      dups.set(i, douts[i] * activated.value);
    }
  }
}

template <class Activation, class T>
void gated_backward(const T* gate_up, const T* dout, T* dgate_up, std::int64_t rows, std::int64_t n) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * n, dgate_up += 2 * n, dout += n) {
    gated_backward_row<Activation>(gate_up, gate_up + n, dout, dgate_up, dgate_up + n, n);
  }
}

template <class T>
void relu_backward(const T* y, const T* dy, T* dx, std::int64_t n, float factor) {
  for (const auto [begin, width] : Chunks<T>(n)) {
    const Loaded<T> ys(y + begin, width);
    const Loaded<T> dys(dy + begin, width);
    Stored<T> dxs(dx + begin, width);
    for (std::int64_t i = 0; i < width; ++i) {
      const float kept = dys[i] * factor;  // before the choice: GCC makes no vectors of conditional loads
      dxs.set(i, ys[i] > 0.0F ? kept : 0.0F);
    }
  }
}

/// Rotates the first `width` elements of a head by the angle of its position (RoPE, Su et al., 2021), pairing
/// element i with i + width/2 as transformers' Llama does; the others stay. `sign` -1 is the inverse, which
/// is also the transpose: the backward pass.
template <class T>
void rotate(const T* from, T* to, const float* angle, std::int64_t width, std::int64_t d, float sign) {
  const std::int64_t half = width / 2;
  for (const auto [begin, count] : Chunks<T>(half)) {
    const Loaded<T> as(from + begin, count);
    const Loaded<T> bs(from + half + begin, count);
    Stored<T> firsts(to + begin, count);
    Stored<T> seconds(to + half + begin, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const float a = as[i];
      const float b = bs[i];
      const float c = angle[begin + i];
      const float s = sign * angle[half + begin + i];
      firsts.set(i, a * c - b * s);
      seconds.set(i, b * c + a * s);
    }
  }
  std::copy(from + width, from + d, to + width);
}

template <class T>
void rope_split(const T* rows, T* q, T* k, T* v, const RowAngles& angles, std::int64_t first,
                std::int64_t count, QkvShape shape) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t head_stride = shape.seq_len * d;
  const T* row = rows;
  for (std::int64_t r = 0; r < count; ++r) {
    const float* const angle = angles.of(r);
    const std::int64_t at = (first + r) * d;
    for (std::int64_t h = 0; h < shape.heads; ++h, row += d)
      rotate(row, q + h * head_stride + at, angle, angles.width, d, 1.0F);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
      rotate(row, k + h * head_stride + at, angle, angles.width, d, 1.0F);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
      std::copy(row, row + d, v + h * head_stride + at);
  }
}

template <class T>
void rope_merge(T* rows, const T* dq, const T* dk, const T* dv, const RowAngles& angles, std::int64_t first,
                std::int64_t count, QkvShape shape) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t head_stride = shape.seq_len * d;
  T* row = rows;
  for (std::int64_t r = 0; r < count; ++r) {
    const float* const angle = angles.of(r);
    const std::int64_t at = (first + r) * d;
    for (std::int64_t h = 0; h < shape.heads; ++h, row += d)
      rotate(dq + h * head_stride + at, row, angle, angles.width, d, -1.0F);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
      rotate(dk + h * head_stride + at, row, angle, angles.width, d, -1.0F);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
      std::copy(dv + h * head_stride + at, dv + h * head_stride + at + d, row);
  }
}

constexpr std::int64_t kHalves = 8;  // 16-bit halves of the four words of a call of Philox

template <bool kRelu, class T>
void dropout_row(const T* x, T* y, std::int64_t n, const DropoutValues& values, std::int64_t r) {
  constexpr std::int64_t kCalls = 16;  // computed together, one per vector lane
  auto counter_low = static_cast<std::uint64_t>(values.places[r] * ((n + kHalves - 1) / kHalves));
  const auto counter_high = static_cast<std::uint64_t>(values.samples[r]);
  const std::uint32_t threshold = values.threshold;
  const float factor = values.factor;
  std::array<std::uint32_t, 4> words[kCalls];
  std::uint16_t halves[kCalls * kHalves];
  for (std::int64_t begin = 0; begin < n; begin += kCalls * kHalves, counter_low += kCalls) {
    for (std::uint64_t c = 0; c < kCalls; ++c)
      words[c] = philox4x32(values.key, counter_low + c, counter_high);
    for (std::int64_t c = 0; c < kCalls; ++c) {
      for (std::int64_t i = 0; i < kHalves; ++i)
        halves[c * kHalves + i] = static_cast<std::uint16_t>(words[c][i / 2] >> (16 * (i % 2)));
    }
    const std::int64_t width = std::min(kCalls * kHalves, n - begin);
    const Loaded<T> xs(x + begin, width);
    Stored<T> ys(y + begin, width);
    for (std::int64_t i = 0; i < width; ++i) {
      const float value = xs[i];
      const float kept = (kRelu && value < 0.0F ? 0.0F : value) * factor;  // as in relu_backward()
      ys.set(i, halves[i] < threshold ? 0.0F : kept);
    }
  }
}

template <class T>
void dropout(const T* x, T* y, std::int64_t rows, std::int64_t n, const DropoutValues& values,
             bool and_relu) {
  const auto row = and_relu ? dropout_row<true, T> : dropout_row<false, T>;
  for (std::int64_t r = 0; r < rows; ++r) row(x + r * n, y + r * n, n, values, r);
}

template <class T>
void run_product(const ProductKernel<T>& kernel, const Product<T>& product, std::byte* workspace) {
  kernel.run(product, workspace);
}

template <class T>
void sum_rows(const T* source, const std::int64_t* rows, std::int64_t count, T* out, std::int64_t n,
              bool add) {
  float sum[kChunk];
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t width = std::min(kChunk, n - begin);
    if (add) {
      to_float(out + begin, sum, width);
    } else {
      std::fill(sum, sum + width, 0.0F);
    }
    for (std::int64_t r = 0; r < count; ++r) {
      const Loaded<T> row(source + rows[r] * n + begin, width);
      for (std::int64_t i = 0; i < width; ++i) sum[i] += row[i];
    }
    from_float(sum, out + begin, width);
  }
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
          .relu_backward = relu_backward<T>,
          .cross_entropy = cross_entropy<T>,
          .attention_softmax = attention_softmax<T>,
          .attention_probabilities = attention_probabilities<T>,
          .attention_softmax_backward = attention_softmax_backward<T>,
          .row_dots = row_dots<T>,
          .rope_split = rope_split<T>,
          .rope_merge = rope_merge<T>,
          .sum_rows = sum_rows<T>,
          .dropout = dropout<T>,
          .to_float = to_float,
          .from_float = from_float,
          .product = run_product<T>};
}

double sum_of_squares(const float* values, std::int64_t n) {
  constexpr std::int64_t kBlock = 4096;
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    float sum = 0;
    // fp32 within a block vectorizes; fp64 over the blocks keeps the error independent of the size.
    for (std::int64_t i = begin; i < end; ++i) sum += values[i] * values[i];
    total += static_cast<double>(sum);
  }
  return total;
}

}  // namespace

const Tables tables{.f32 = make_table<float>(),
                    .bf16 = make_table<Bf16>(),
                    .fp16 = make_table<Fp16>(),
                    .sum_of_squares = sum_of_squares,
                    .initial_values = initial_values,
                    .anyprecision_adamw = anyprecision_adamw,
                    .for_each_task = nullptr};

}  // namespace echelon::kernels::ECHELON_ISA
