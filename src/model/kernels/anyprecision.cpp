#include "model/kernels/anyprecision.h"

#include <bit>
#include <cmath>
#include <type_traits>

#include "base/half.h"

namespace echelon::kernels {
namespace {

/// An array whose type is a compile-time constant.
template <bool kBf16>
struct Array {
  using Element = std::conditional_t<kBf16, std::uint16_t, float>;
  Element* data;

  explicit Array(const LowPrecisionArray& array) : data(static_cast<Element*>(array.data)) {}
  float load(std::int64_t i) const {
    if constexpr (kBf16) {
      return bf16_to_float(data[i]);
    } else {
      return data[i];
    }
  }
  /// Requires a value of rounded(): for bf16 it keeps the upper 16 bits.
  void store(std::int64_t i, float x) const {
    if constexpr (kBf16) {
      data[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
    } else {
      data[i] = x;
    }
  }
  /// x rounded to this array's type.
  static float rounded(float x) {
    if constexpr (kBf16) {
      return bf16_to_float(float_to_bf16(x));
    } else {
      return x;
    }
  }
};

template <bool kWeights, bool kFirst, bool kSecond, bool kKahan, bool kCompensation>
inline void pass(const AnyPrecisionNumbers& numbers, const AnyPrecisionArrays& arrays, std::int64_t begin,
                 std::int64_t end) {
  using W = Array<kWeights>;
  using M = Array<kFirst>;
  using V = Array<kSecond>;
  using C = Array<kCompensation>;
  const W weights(arrays.weights);
  const M exp_avg(arrays.exp_avg);
  const V exp_avg_sq(arrays.exp_avg_sq);
  const C compensation(arrays.compensation);
  const AnyPrecisionNumbers n = numbers;
  const float* gradient = arrays.gradient;
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = gradient[i] * n.gradient_factor;
    const float w = W::rounded(weights.load(i) * n.keep);
    const float m = M::rounded(M::rounded(exp_avg.load(i) * n.beta1) + g * n.one_minus_beta1);
    const float v = V::rounded(V::rounded(exp_avg_sq.load(i) * n.beta2) + n.one_minus_beta2 * g * g);
    const float root = V::rounded(std::sqrt(v));
    const float denominator = V::rounded(V::rounded(root / n.denominator_correction) + n.eps);
    const float update = n.minus_step_size * m / denominator;
    exp_avg.store(i, m);
    exp_avg_sq.store(i, v);
    if constexpr (kKahan) {
      const float c = C::rounded(compensation.load(i) + update);
      const float moved = W::rounded(w + c);
      weights.store(i, moved);
      compensation.store(i, C::rounded(c + W::rounded(w - moved)));
    } else {
      weights.store(i, W::rounded(w + update));
    }
  }
}

/// Calls f with `value` as a compile-time constant.
template <class F>
inline void with_constant(bool value, const F& f) {
  if (value) {
    f(std::true_type());
  } else {
    f(std::false_type());
  }
}

}  // namespace

// A second copy of the function for processors with 256-bit registers. AVX2 does not include FMA, so the bits
// stay the same.
#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default"), flatten))
#endif
void anyprecision_adamw(const AnyPrecisionNumbers& numbers, const AnyPrecisionArrays& arrays,
                       std::int64_t begin, std::int64_t end) {
  with_constant(arrays.weights.bf16, [&](auto w) {
    with_constant(arrays.exp_avg.bf16, [&](auto m) {
      with_constant(arrays.exp_avg_sq.bf16, [&](auto v) {
        with_constant(arrays.compensation.data != nullptr, [&](auto kahan) {
          with_constant(arrays.compensation.bf16, [&](auto c) {
            pass<decltype(w)::value, decltype(m)::value, decltype(v)::value, decltype(kahan)::value,
                 decltype(c)::value>(numbers, arrays, begin, end);
          });
        });
      });
    });
  });
}

}  // namespace echelon::kernels
