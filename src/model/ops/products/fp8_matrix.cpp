#include "model/ops/products/fp8_matrix.h"

#include <ATen/ATen.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <limits>

#include "model/ops/device_kernels.h"
#include "shapes/shapes.h"

namespace echelon::ops {
namespace {

double largest(at::ScalarType type) {
  return type == at::kFloat8_e5m2 ? static_cast<double>(std::numeric_limits<c10::Float8_e5m2>::max())
                                  : static_cast<double>(std::numeric_limits<c10::Float8_e4m3fn>::max());
}

}  // namespace

at::Tensor fp8_scale(const at::Tensor& matrix, at::ScalarType type) {
  constexpr double kLeast = 1e-12;
  const at::Tensor amax = at::linalg_vector_norm(matrix, std::numeric_limits<double>::infinity());
  const at::Tensor limit = at::scalar_tensor(largest(type), at::kDouble);
  return at::div(limit, amax.to(at::kDouble).clamp_min_(kLeast)).to(at::kFloat).reshape({1});
}

Fp8Matrix to_fp8(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) {
  // The cast does not saturate. It need not: the scale is too large by half a unit in the last place of fp32
  // at most, which the cast rounds away.
  return {at::mul(matrix, scale).to(type), scale.reciprocal()};
}

Fp8Matrix to_fp8(const at::Tensor& matrix, at::ScalarType type) {
  return to_fp8(matrix, type, fp8_scale(matrix, type));
}

Fp8Matrix transposed(const Fp8Matrix& matrix) {
  const std::int64_t rows = matrix.elements.size(0);
  const std::int64_t padded = (rows + kFp8Multiple - 1) / kFp8Multiple * kFp8Multiple;
  at::Tensor turned = at::empty({matrix.elements.size(1), padded}, matrix.elements.options());
  turned.narrow(1, 0, rows).copy_(matrix.elements.t());
  if (padded > rows) turned.narrow(1, rows, padded - rows).zero_();
  return {turned, matrix.factor};
}

void fp8_product_into(const at::Tensor& result, const Fp8Matrix& a, const Fp8Matrix& b, bool fast,
                      bool accumulate) {
  if (device_kernels(result) == nullptr) {
    // On processors with AMX at::_scaled_mm takes a thousand times as long as these steps.
    const at::Tensor sums = at::mm(a.elements.to(at::kFloat), b.elements.to(at::kFloat).t());
    const at::Tensor values = sums.mul_(a.factor * b.factor);
    accumulate ? result.add_(values) : result.copy_(values);
  } else if (accumulate) {
    result.add_(fp8_product(a, b, at::kFloat, fast));
  } else {
    at::Tensor place = result;
    at::_scaled_mm_out(place, a.elements, b.elements.t(), a.factor, b.factor, {}, {}, result.scalar_type(),
                       fast);
  }
}

at::Tensor fp8_product(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast) {
  at::Tensor result = at::empty({a.elements.size(0), b.elements.size(0)}, a.factor.options().dtype(type));
  fp8_product_into(result, a, b, fast, false);
  return result;
}

}  // namespace echelon::ops
