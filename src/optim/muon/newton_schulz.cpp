#include "optim/muon/newton_schulz.h"

#include <ATen/ATen.h>

#include "model/ops/products/widened_product.h"

namespace echelon {
namespace {

/// The type in which this processor computes products of bf16 tensors; their results are rounded once.
at::ScalarType type_of_products(const at::Tensor& x) {
  return ops::goes_by_fp32(x) ? at::kFloat : x.scalar_type();
}

}  // namespace

at::Tensor newton_schulz(const at::Tensor& matrix, std::int64_t steps) {
  constexpr double kA = 3.4445;  // Jordan's: the steepest at zero
  constexpr double kB = -4.7750;
  constexpr double kC = 2.0315;
  constexpr double kLeastNorm = 1e-7;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / x.norm().clamp_min(kLeastNorm);
  const at::ScalarType type = type_of_products(x);
  const auto rounded = [&](const at::Tensor& result) { return result.to(at::kBFloat16).to(type); };
  x = x.to(type);
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor gram = rounded(at::mm(x, x.t()));
    x = rounded(at::addmm(x, rounded(at::addmm(gram, gram, gram, kB, kC)), x, kA));
  }
  return (tall ? x.t() : x).to(at::kBFloat16);
}

}  // namespace echelon
