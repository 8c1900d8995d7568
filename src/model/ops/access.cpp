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

at::Tensor deposit_by(Parameter& parameter,
                      const std::function<void(const at::Tensor& into, bool add)>& write) {
  if (!parameter.value.requires_grad()) return {};
  if (parameter.sink == nullptr) {  // tests, single tensors
    const at::Tensor gradient = at::empty_like(parameter.value.detach());
    write(gradient, false);
    return gradient;
  }
  // The first gradient overwrites, later ones (a shared weight, another micro-batch) add.
  parameter.sink->open(parameter);
  write(parameter.gradient, parameter.deposited);
  parameter.deposited = true;
  return {};
}

at::Tensor deposit_product(Parameter& parameter, const at::Tensor& a, const at::Tensor& b) {
  return deposit_by(parameter, [&](const at::Tensor& into, bool add) { product_into(into, a, b, add); });
}

at::Tensor deposit(Parameter& parameter, const at::Tensor& whole) {
  return deposit_by(parameter, [&](const at::Tensor& into, bool add) {
    if (add) {
      into.add_(whole);
    } else {
      into.copy_(whole);
    }
  });
}

}  // namespace echelon::ops
