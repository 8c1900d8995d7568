#include <ATen/ATen.h>

#include <optional>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  /// Returns the sum and its norm.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const std::optional<at::Tensor>& term, const at::Tensor& value,
                               Parameter* weight, double eps, NormRounding rounding) {
    const std::int64_t n = x.size(1);
    const at::Tensor added = term.value_or(at::Tensor());
    const at::Tensor sum = added.defined() ? at::empty_like(x) : at::Tensor();
    at::Tensor y = at::empty_like(x);
    at::Tensor inv_rms = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
    const at::Tensor& normed = sum.defined() ? sum : x;
    ctx->save_for_backward({normed, inv_rms});
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    ctx->saved_data["rounding"] = static_cast<std::int64_t>(rounding);
    ctx->saved_data["adds"] = added.defined();
    // A sum that nothing reads has no gradient, and none is made of zeros.
    ctx->set_materialize_grads(false);
    if (const DeviceKernels* device = device_kernels(x)) {
      device->rms_norm(x, added, sum, value, y, inv_rms, eps, rounding);
      return {normed, y};
    }
    for_all_rows(x, 64, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().rms_norm(
          in<T>(x) + first * n, in_or_null<T>(added, first * n), out_or_null<T>(sum, first * n), in<T>(value),
          out<T>(y) + first * n, out<float>(inv_rms) + first, {rows, n}, static_cast<float>(eps), rounding);
    });
    return {normed, y};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto all = [&](const at::Tensor& dx, const at::Tensor& dw) -> variable_list {
      return {dx, ctx->saved_data["adds"].toBool() ? dx : at::Tensor(), dw, {}, {}, {}};
    };
    if (!grads[1].defined()) return all(grads[0], {});
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    const auto rounding = static_cast<NormRounding>(ctx->saved_data["rounding"].toInt());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor dsum = grads[0].defined() ? grads[0].contiguous() : at::Tensor();
    const at::Tensor dy = grads[1].contiguous();
    const std::int64_t n = x.size(1);
    at::Tensor dx = at::empty_like(x);
    if (const DeviceKernels* device = device_kernels(x)) {
      const at::Tensor dw = at::empty({n}, saved[1].options());
      device->rms_norm_backward(dy, dsum, x, weight.value, saved[1], dx, dw, rounding);
      return all(dx, deposit(weight, dw));
    }
    const PartialSums dw(weight, x);
    for_each_partial(x, [&]<class T>(ElementTag<T>, std::int64_t p, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().rms_norm_backward(
          in<T>(dy) + first * n, in_or_null<T>(dsum, first * n), in<T>(x) + first * n, in<T>(weight.value),
          in<float>(saved[1]) + first, out<T>(dx) + first * n, dw.row(p), {rows, n}, rounding);
    });
    return all(dx, deposit(weight, dw.total()));
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, Parameter& weight, double eps, NormRounding rounding) {
  return add_rms_norm(x, {}, weight, eps, rounding).norm;
}

SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& added, Parameter& weight, double eps,
                        NormRounding rounding) {
  const auto term = added.defined() ? std::optional(added) : std::nullopt;
  const variable_list both = RmsNorm::apply(x, term, weight.value, &weight, eps, rounding);
  return {both[0], both[1]};
}

}  // namespace echelon::ops
