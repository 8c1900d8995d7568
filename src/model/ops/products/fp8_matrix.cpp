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
  at::Tensor scale = at::empty({2}, matrix.options().dtype(at::kFloat));
  fp8_scale_into(matrix, type, scale);
  return scale;
}

void fp8_scale_into(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) {
  if (const DeviceKernels* kernels = device_kernels(matrix)) return kernels->fp8_scale(matrix, type, scale);
  constexpr double kLeast = 1e-12;
  const at::Tensor amax = at::linalg_vector_norm(matrix, std::numeric_limits<double>::infinity());
  const at::Tensor limit = at::scalar_tensor(largest(type), at::kDouble);
  const at::Tensor found = at::div(limit, amax.to(at::kDouble).clamp_min_(kLeast)).to(at::kFloat);
  scale.copy_(at::stack({found, found.reciprocal()}));
}

Fp8Orders to_fp8(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale, Fp8Wanted wanted) {
  const std::int64_t rows = matrix.size(0);
  const std::int64_t padded = (rows + kFp8Multiple - 1) / kFp8Multiple * kFp8Multiple;
  const auto options = matrix.options().dtype(type);
  Fp8Orders made;
  if (wanted.rows) made.rows = {at::empty(matrix.sizes(), options), fp8_factor(scale)};
  if (wanted.transposed) made.transposed = {at::empty({matrix.size(1), padded}, options), fp8_factor(scale)};
  fp8_cast_into(matrix, scale, made.rows.elements, made.transposed.elements);
  return made;
}

void fp8_cast_into(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                   const at::Tensor& transposed) {
  if (const DeviceKernels* kernels = device_kernels(matrix))
    return kernels->fp8_cast(matrix, scale, rows, transposed);
  // This cast does not saturate. It need not: the scale is too large by half a unit in the last place of fp32
  // at most, which the cast rounds away.
  const at::Tensor values = at::mul(matrix, scale.narrow(0, 0, 1));
  if (rows.defined()) rows.copy_(values);
  if (!transposed.defined()) return;
  const std::int64_t count = matrix.size(0);
  transposed.narrow(1, 0, count).copy_(values.t());
  transposed.narrow(1, count, transposed.size(1) - count).zero_();
}

Fp8Matrix fp8_transposed(const Fp8Matrix& rows) {
  const at::Tensor& elements = rows.elements;
  const at::Tensor turned = at::empty({elements.size(1), elements.size(0)}, elements.options());
  if (const DeviceKernels* kernels = device_kernels(elements))
    kernels->fp8_transpose(elements, turned);
  else
    turned.copy_(elements.t());
  return {turned, rows.factor};
}

at::Tensor fp8_factor(const at::Tensor& scale) {
  return scale.narrow(0, 1, 1);
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
