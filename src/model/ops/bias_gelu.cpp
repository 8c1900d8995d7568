#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

struct BiasGelu : torch::autograd::Function<BiasGelu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& b, Parameter* bias) {
    const std::int64_t n = x.size(1);
    at::Tensor y = at::empty_like(x);
    for_all_rows(x, 16, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().bias_gelu(in<T>(x) + first * n, in<T>(b), out<T>(y) + first * n, rows, n);
    });
    ctx->save_for_backward({x});
    ctx->saved_data["bias"] = reinterpret_cast<std::int64_t>(bias);
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& bias = *reinterpret_cast<Parameter*>(ctx->saved_data["bias"].toInt());
    const at::Tensor x = ctx->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t n = x.size(1);
    at::Tensor dx = at::empty_like(x);
    const PartialSums db(bias, x);
    for_each_partial(x, [&]<class T>(ElementTag<T>, std::int64_t p, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().bias_gelu_backward(in<T>(dy) + first * n, in<T>(x) + first * n, in<T>(bias.value),
                                               out<T>(dx) + first * n, db.row(p), rows, n);
    });
    return {dx, deposit(bias, db.total()), {}};
  }
};

}  // namespace

at::Tensor bias_gelu(const at::Tensor& x, Parameter& bias) {
  if (device_kernels(x) != nullptr) return at::gelu(x + use(bias), "tanh");
  return BiasGelu::apply(x, bias.value, &bias);
}

}  // namespace echelon::ops
