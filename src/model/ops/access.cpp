#include "model/ops/access.h"

#include <ATen/ATen.h>

#include "model/ops/products/product.h"

namespace echelon::ops {

PartialSums::PartialSums(const Parameter& vector, const at::Tensor& like) {
  if (vector.value.requires_grad())
    rows_ = at::zeros({kPartials, vector.value.numel()}, like.options().dtype(at::kFloat));
}

float* PartialSums::row(std::int64_t partial) const {
  return rows_.defined() ? out<float>(rows_) + partial * rows_.size(1) : nullptr;
}

at::Tensor PartialSums::total() const {
  return rows_.defined() ? rows_.sum(0) : at::Tensor();
}

at::Tensor deposit_product(Parameter& parameter, const at::Tensor& a, const at::Tensor& b) {
  if (!parameter.value.requires_grad()) return {};
  // Without a sink (tests, single tensors) autograd gets the gradient. With one it is written straight into
  // the unit's reduction buffer: the first product overwrites, later ones (a shared weight, another micro-
  // batch) add.
  if (parameter.sink == nullptr) return product(a, b);
  parameter.sink->open(parameter);
  product_into(parameter.gradient, a, b, parameter.deposited);
  parameter.deposited = true;
  return {};
}

at::Tensor deposit(Parameter& parameter, const at::Tensor& whole) {
  if (!parameter.value.requires_grad()) return {};
  if (parameter.sink == nullptr) return whole.to(parameter.value.scalar_type());
  parameter.sink->open(parameter);
  if (parameter.deposited) {
    parameter.gradient.add_(whole);
  } else {
    parameter.gradient.copy_(whole);
  }
  parameter.deposited = true;
  return {};
}

}  // namespace echelon::ops
