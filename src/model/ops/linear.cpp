#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"
#include "model/ops/products/fp8_matrix.h"
#include "model/ops/products/product.h"

namespace echelon::ops {
namespace {

/// The input that a Recompute "x" makes again, in `type`, to which it was cast if the product belongs to a
/// unit of another precision than what made it. Undefined: there is no Recompute.
at::Tensor made_again(AutogradContext* ctx, at::ScalarType type) {
  if (ctx->saved_data.count("x") == 0) return {};
  const at::NoGradGuard no_grad;
  return kept<Recompute>(ctx, "x")().to(type);
}

at::Tensor bias_gradient(AutogradContext* ctx, const at::Tensor& dy) {
  auto* bias = reinterpret_cast<Parameter*>(ctx->saved_data["bias"].toInt());
  if (bias == nullptr || !ctx->needs_input_grad(2)) return {};
  return deposit(*bias, dy.sum(at::IntArrayRef{0}, false, at::kFloat));
}

struct Linear : torch::autograd::Function<Linear> {
  // `value` is a separate input so that the output requires grad and, without a sink, the leaf gets its
  // gradient. The address of the Parameter travels as an integer; it outlives every graph.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& value,
                            const std::optional<at::Tensor>& bias_value, Parameter* weight, Parameter* bias,
                            const Recompute* x_again) {
    if (!value.requires_grad()) {
      // Only the weight's gradient needs x.
    } else if (*x_again) {
      keep(ctx, "x", *x_again);
    } else {
      ctx->save_for_backward({x});
    }
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    ctx->saved_data["bias"] = reinterpret_cast<std::int64_t>(bias);
    if (bias == nullptr) return product(x, value.t());
    if (device_kernels(x) != nullptr) return at::addmm(*bias_value, x, value.t());
    return product(x, value.t()).add_(*bias_value);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor dx;
    if (ctx->needs_input_grad(0)) dx = product(dy, weight.value.detach());
    at::Tensor dw;
    if (ctx->needs_input_grad(1)) {
      const at::Tensor again = made_again(ctx, dy.scalar_type());
      dw = deposit_product(weight, dy.t(), again.defined() ? again : ctx->get_saved_variables()[0]);
    }
    return {dx, dw, bias_gradient(ctx, dy), {}, {}, {}};
  }
};

/// A weight, of the scale `scale`, in the order that the result or the gradient of the input takes.
Fp8Matrix weight_in(const Parameter& weight, const at::Tensor& scale, Fp8Wanted wanted) {
  if (weight.value8.defined()) {
    const Fp8Matrix rows{weight.value8, fp8_factor(scale)};
    return wanted.rows ? rows : fp8_transposed(rows);
  }
  const Fp8Orders cast = to_fp8(weight.value.detach(), kFp8Values, scale, wanted);
  return wanted.rows ? cast.rows : cast.transposed;
}

/// Linear, of operands in fp8. Scales of weight and input are kept, because backward sees the same two.
struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& value,
                            const std::optional<at::Tensor>& bias_value, Parameter* weight, Parameter* bias,
                            const Recompute* x_again, bool weight_trains) {
    const at::Tensor scale = weight->value8.defined() ? weight->scale8 : fp8_scale(value, kFp8Values);
    const at::Tensor x_scale = fp8_scale(x, kFp8Values);
    const bool keeps = weight_trains && !*x_again;
    const Fp8Orders x8 = to_fp8(x, kFp8Values, x_scale, {.rows = true, .transposed = keeps});
    if (weight_trains && *x_again) keep(ctx, "x", *x_again);
    ctx->save_for_backward({scale, x_scale, x8.transposed.elements});
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    ctx->saved_data["bias"] = reinterpret_cast<std::int64_t>(bias);
    const Fp8Matrix w8 = weight_in(*weight, scale, {.rows = true});
    const at::Tensor y = fp8_product(x8.rows, w8, x.scalar_type(), true);
    return bias == nullptr ? y : y.add_(*bias_value);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor dy = grads[0].contiguous();
    const Fp8Wanted wanted{.rows = ctx->needs_input_grad(0), .transposed = ctx->needs_input_grad(1)};
    Fp8Orders dy8;
    if (wanted.rows || wanted.transposed)
      dy8 = to_fp8(dy, kFp8Gradients, fp8_scale(dy, kFp8Gradients), wanted);
    at::Tensor dx;
    if (wanted.rows) {
      const Fp8Matrix w8 = weight_in(weight, saved[0], {.transposed = true});
      dx = fp8_product(dy8.rows, w8, dy.scalar_type(), false);
    }
    at::Tensor dw;
    if (wanted.transposed) {
      const at::Tensor again = made_again(ctx, dy.scalar_type());
      const Fp8Matrix x8 = again.defined()
                               ? to_fp8(again, kFp8Values, saved[1], {.transposed = true}).transposed
                               : Fp8Matrix{saved[2], fp8_factor(saved[1])};
      dw = deposit_by(weight, [&](const at::Tensor& into, bool add) {
        fp8_product_into(into, dy8.transposed, x8, false, add);
      });
    }
    return {dx, dw, bias_gradient(ctx, dy), {}, {}, {}, {}};
  }
};

template <class Kind, class... More>
at::Tensor applied(const at::Tensor& x, Parameter& weight, const Recompute& x_again, Parameter* bias,
                   More... more) {
  return Kind::apply(x, weight.value, bias == nullptr ? std::nullopt : std::optional<at::Tensor>(bias->value),
                     &weight, bias, &x_again, more...);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, Parameter& weight, const Recompute& x_again, Parameter* bias) {
  return applied<Linear>(x, weight, x_again, bias);
}

at::Tensor fp8_linear(const at::Tensor& x, Parameter& weight, const Recompute& x_again, Parameter* bias) {
  // False in the first of two passes over a recomputed block, which keeps nothing.
  const bool weight_trains = weight.value.requires_grad() && at::GradMode::is_enabled();
  return applied<Fp8Linear>(x, weight, x_again, bias, weight_trains);
}

}  // namespace echelon::ops
