#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w,
                            const at::Tensor& b, Parameter* weight, Parameter* bias, double eps) {
    const std::int64_t n = x.size(1);
    at::Tensor y = at::empty_like(x);
    at::Tensor statistics = at::empty({x.size(0), 2}, x.options().dtype(at::kFloat));
    for_all_rows(x, 64, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().layer_norm(in<T>(x) + first * n, in<T>(w), in<T>(b), out<T>(y) + first * n,
                                       out<float>(statistics) + first * 2, rows, n, static_cast<float>(eps));
    });
    ctx->save_for_backward({x, statistics});
    ctx->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight);
    ctx->saved_data["bias"] = reinterpret_cast<std::int64_t>(bias);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = *reinterpret_cast<Parameter*>(ctx->saved_data["weight"].toInt());
    auto& bias = *reinterpret_cast<Parameter*>(ctx->saved_data["bias"].toInt());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t n = x.size(1);
    at::Tensor dx = at::empty_like(x);
    const PartialSums dw(weight, x);
    const PartialSums db(bias, x);
    for_each_partial(x, [&]<class T>(ElementTag<T>, std::int64_t p, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().layer_norm_backward(in<T>(dy) + first * n, in<T>(x) + first * n,
                                                in<T>(weight.value), in<float>(saved[1]) + first * 2,
                                                out<T>(dx) + first * n, dw.row(p), db.row(p), rows, n);
    });
    return {dx, deposit(weight, dw.total()), deposit(bias, db.total()), {}, {}, {}};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, Parameter& weight, Parameter& bias, double eps) {
  if (device_kernels(x) != nullptr) return at::layer_norm(x, {x.size(1)}, use(weight), use(bias), eps);
  return LayerNorm::apply(x, weight.value, bias.value, &weight, &bias, eps);
}

}  // namespace echelon::ops
