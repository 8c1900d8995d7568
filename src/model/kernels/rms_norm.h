#pragma once
#include <cmath>
#include <cstdint>
#include <utility>

#include "model/kernels/arguments.h"
#include "model/kernels/chunks.h"
#include "model/kernels/elements.h"

/// RMS norms over rows. For kernels_impl.cpp and as often compiled.
namespace echelon::kernels::ECHELON_ISA {

/// A normalized value, as its weight and the weight's gradient see it.
template <class T>
float normed(float value, NormRounding rounding) {
  return rounding == NormRounding::kTwice ? rounded<T>(value) : value;
}

/// What is added to the weight.
inline float offset(NormRounding rounding) {
  return rounding == NormRounding::kOncePlusOne ? 1.0F : 0.0F;
}

/// sum = x + added, n elements; returns sum.
template <class T>
const T* add_row(const T* x, const T* added, T* sum, std::int64_t n) {
  for (const auto [begin, width] : Chunks<T>(n)) {
    const Loaded<T> xs(x + begin, width);
    const Loaded<T> more(added + begin, width);
    Stored<T> sums(sum + begin, width);
    for (std::int64_t i = 0; i < width; ++i) sums.set(i, xs[i] + more[i]);
  }
  return sum;
}

template <class T>
void rms_norm_group(const T* first, const T* added, T* total, const T* w, T* y, float* inv_rms,
                    const NormRows& shape, float eps, NormRounding rounding) {
  const float more = offset(rounding);
  const auto [rows, n] = std::pair(shape.rows, shape.n);
  for (std::int64_t r = 0; r < rows; ++r, y += n) {
    const T* x = first + r * n;
    if (added != nullptr) x = add_row(x, added + r * n, total + r * n, n);
    float sum = 0;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> xs(x + begin, width);
      for (std::int64_t i = 0; i < width; ++i) sum += xs[i] * xs[i];
    }
    const float inv = 1.0F / std::sqrt(sum / static_cast<float>(n) + eps);
    inv_rms[r] = inv;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> ws(w + begin, width);
      Stored<T> ys(y + begin, width);
      for (std::int64_t i = 0; i < width; ++i) ys.set(i, normed<T>(xs[i] * inv, rounding) * (ws[i] + more));
    }
  }
}

/// data + by; null stays null.
template <class T>
T* past(T* data, std::int64_t by) {
  return data == nullptr ? nullptr : data + by;
}

template <class T>
void rms_norm(const T* x, const T* added, T* sum, const T* w, T* y, float* inv_rms, const NormRows& shape,
              float eps, NormRounding rounding) {
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    const std::int64_t at = g * shape.stride;
    rms_norm_group(x + at, past(added, at), past(sum, at), w, y + at, inv_rms + g * shape.rows, shape, eps,
                   rounding);
  }
}

template <class T>
void rms_norm_backward_group(const T* dy, const T* dsum, const T* x, const T* w, const float* inv_rms, T* dx,
                             float* dw_sum, const NormRows& shape, NormRounding rounding) {
  const float more = offset(rounding);
  const auto [rows, n] = std::pair(shape.rows, shape.n);
  for (std::int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
    const float inv = inv_rms[r];
    float dot = 0;
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> dys(dy + begin, width);
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> ws(w + begin, width);
      for (std::int64_t i = 0; i < width; ++i) {
        dot += dys[i] * xs[i] * (ws[i] + more);
        if (dw_sum != nullptr) dw_sum[begin + i] += dys[i] * normed<T>(xs[i] * inv, rounding);
      }
    }
    // y = x w r with r = (mean(x^2) + eps)^(-1/2), so dr/dx_i = -r^3 x_i / n: the second term of dx.
    const float correction = dot * inv * inv * inv / static_cast<float>(n);
    for (const auto [begin, width] : Chunks<T>(n)) {
      const Loaded<T> dys(dy + begin, width);
      const Loaded<T> xs(x + begin, width);
      const Loaded<T> ws(w + begin, width);
      Stored<T> dxs(dx + begin, width);
      for (std::int64_t i = 0; i < width; ++i) dxs.set(i, dys[i] * (ws[i] + more) * inv - xs[i] * correction);
    }
    // In a loop of its own, because fast-math computes one expression in two places in two ways: the result
    // has the bits of two separate sums, which are made where the norm is a unit of its own.
    if (dsum != nullptr) add_row(dx, dsum + r * n, dx, n);
  }
}

template <class T>
void rms_norm_backward(const T* dy, const T* dsum, const T* x, const T* w, const float* inv_rms, T* dx,
                       float* dw_sum, const NormRows& shape, NormRounding rounding) {
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    const std::int64_t at = g * shape.stride;
    rms_norm_backward_group(dy + at, past(dsum, at), x + at, w, inv_rms + g * shape.rows, dx + at, dw_sum,
                            shape, rounding);
  }
}

}  // namespace echelon::kernels::ECHELON_ISA
