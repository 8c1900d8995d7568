#pragma once
#include <cstdint>

namespace echelon {

/// Elements of type fp32 or bf16.
struct LowPrecisionArray {
  void* data = nullptr;
  bool bf16 = false;
};

/// What AnyPrecisionAdamW works on; arrays of the same length that do not overlap.
struct AnyPrecisionArrays {
  LowPrecisionArray weights;
  const float* gradient = nullptr;
  LowPrecisionArray exp_avg;
  LowPrecisionArray exp_avg_sq;
  LowPrecisionArray compensation;  ///< null: no Kahan summation
};

/// The numbers of one step, as the tensor operations see them.
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

/// Updates elements [begin, end) in one pass over memory, in fp32 arithmetic rounded to each array's type
/// where the algorithm stores an intermediate result. No fused multiply-adds: the same bits on every
/// processor.
void anyprecision_pass(const AnyPrecisionNumbers& numbers, const AnyPrecisionArrays& arrays,
                       std::int64_t begin, std::int64_t end);

}  // namespace echelon
