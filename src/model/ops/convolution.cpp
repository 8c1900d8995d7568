#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "model/ops/access.h"
#include "model/ops/ops.h"
#include "model/ops/products/widened_product.h"

namespace echelon::ops {
namespace {

/// Samples that are widened together.
constexpr std::int64_t kSamples = 32;

/// Calls f(samples of each tensor, in fp32) for parts of the batch.
template <class F>
void each_part(const at::Tensor& x, const F& f) {
  for (std::int64_t first = 0; first < x.size(0); first += kSamples)
    f(first, std::min(kSamples, x.size(0) - first));
}

struct Convolution : torch::autograd::Function<Convolution> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    ctx->save_for_backward({x, weight});
    const at::Tensor w = weight.to(at::kFloat);
    const at::Tensor b = bias.to(at::kFloat);
    at::Tensor result =
        at::empty({x.size(0), w.size(0), x.size(2) - w.size(2) + 1, x.size(3) - w.size(3) + 1}, x.options());
    each_part(x, [&](std::int64_t first, std::int64_t count) {
      result.narrow(0, first, count).copy_(at::conv2d(x.narrow(0, first, count).to(at::kFloat), w, b));
    });
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor& x = kept[0];
    const at::Tensor w = kept[1].to(at::kFloat);
    const std::array<bool, 3> wanted{ctx->needs_input_grad(0), ctx->needs_input_grad(1),
                                     ctx->needs_input_grad(2)};
    const at::Tensor dx = wanted[0] ? at::empty_like(x) : at::Tensor();
    at::Tensor dw = at::zeros_like(w);
    at::Tensor db = at::zeros({w.size(0)}, w.options());
    each_part(x, [&](std::int64_t first, std::int64_t count) {
      const auto [dx_part, dw_part, db_part] = at::convolution_backward(
          grads[0].narrow(0, first, count).to(at::kFloat), x.narrow(0, first, count).to(at::kFloat), w,
          at::IntArrayRef({w.size(0)}), {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, wanted);
      if (wanted[0]) dx.narrow(0, first, count).copy_(dx_part);
      if (wanted[1]) dw.add_(dw_part);
      if (wanted[2]) db.add_(db_part);
    });
    return {dx, dw.to(x.scalar_type()), db.to(x.scalar_type())};
  }
};

}  // namespace

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return goes_by_fp32(x) ? Convolution::apply(x, weight, bias) : at::conv2d(x, weight, bias);
}

}  // namespace echelon::ops
