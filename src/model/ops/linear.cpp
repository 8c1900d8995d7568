#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"
#include "model/ops/products/product.h"

namespace echelon::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Carries a Recompute through autograd's saved data.
struct Kept final : torch::CustomClassHolder {
  explicit Kept(Recompute f) : again(std::move(f)) {}
  Recompute again;
};

struct Linear : torch::autograd::Function<Linear> {
  // `value` is a separate input so that the output requires grad and, without a sink, the leaf gets its
  // gradient. The address of the Parameter travels as an integer; it outlives every graph.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& value,
                            const std::optional<at::Tensor>& bias_value, Parameter* weight, Parameter* bias,
                            const Recompute* x_again) {
    if (!value.requires_grad()) {
      // Only the weight's gradient needs x.
    } else if (*x_again) {
      ctx->saved_data["x"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(*x_again));
    } else {
      ctx->save_for_backward({x});
    }
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    ctx->saved_data["bias"] = reinterpret_cast<std::int64_t>(bias);
    if (bias == nullptr) return product(x, value.t());
    if (device_kernels(x) != nullptr) return at::addmm(*bias_value, x, value.t());
    return product(x, value.t()).add_(*bias_value);
  }
  /// In `type`, to which x was cast if the product belongs to a unit of another precision than what made x.
  static at::Tensor input(AutogradContext* ctx, at::ScalarType type) {
    const auto kept = ctx->saved_data.find("x");
    if (kept == ctx->saved_data.end()) return ctx->get_saved_variables()[0];
    const at::NoGradGuard no_grad;
    return static_cast<const Kept&>(*kept->second.toCapsule()).again().to(type);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) dx = product(dy, weight.value.detach());
    auto* bias = reinterpret_cast<Parameter*>(ctx->saved_data["bias"].toInt());
    at::Tensor db;
    if (bias != nullptr && ctx->needs_input_grad(2))
      db = deposit(*bias, dy.sum(at::IntArrayRef{0}, false, at::kFloat));
    at::Tensor dw;
    if (ctx->needs_input_grad(1)) dw = deposit_product(weight, dy.t(), input(ctx, dy.scalar_type()));
    return {dx, dw, db, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, Parameter& weight, const Recompute& x_again, Parameter* bias) {
  return Linear::apply(x, weight.value,
                       bias == nullptr ? std::nullopt : std::optional<at::Tensor>(bias->value), &weight, bias,
                       &x_again);
}

}  // namespace echelon::ops
