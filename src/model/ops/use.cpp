#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

struct Used : torch::autograd::Function<Used> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& value, Parameter* weight) {
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    return value.view_as(value);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    return {deposit(weight, grads[0]), {}};
  }
};

}  // namespace

at::Tensor use(Parameter& weight) {
  return Used::apply(weight.value, &weight);
}

}  // namespace echelon::ops
