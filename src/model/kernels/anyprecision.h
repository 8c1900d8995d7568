#pragma once
#include <cstdint>

namespace echelon::kernels {

/// An array of fp32 or bf16 elements.
struct LowPrecisionArray {
  void* data = nullptr;
  bool bf16 = false;
};

/// The arrays of AnyPrecisionAdamW: same length, no overlap.
struct AnyPrecisionArrays {
  LowPrecisionArray weights;
  const float* gradient = nullptr;
  LowPrecisionArray exp_avg;
  LowPrecisionArray exp_avg_sq;
  LowPrecisionArray compensation;  ///< null: no Kahan summation
};

/// The scalars of one step, in the precision that the tensor operations use.
struct AnyPrecisionNumbers {
  float gradient_factor = 1;
  float keep = 1;  ///< 1 - lr * weight_decay
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float denominator_correction = 1;  ///< sqrt(1 - beta2^step)
  float eps = 0;
  float minus_step_size = 0;  ///< -lr / (1 - beta1^step)
};

/// Updates elements [begin, end) in one pass over memory. Arithmetic is fp32; results are rounded to an
/// array's type where the algorithm stores them. Uses no fused multiply-adds, so the bits are the same on
/// every processor. Thread-safe for disjoint ranges.
void anyprecision_adamw(const AnyPrecisionNumbers& numbers, const AnyPrecisionArrays& arrays,
                        std::int64_t begin, std::int64_t end);

}  // namespace echelon::kernels
