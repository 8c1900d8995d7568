#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

/// For GPUs, where ATen's backward adds atomically and train.deterministic refuses it. Windows do not
/// overlap, so each element only checks whether its window has chosen it.
struct MaxPool2x2 : torch::autograd::Function<MaxPool2x2> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    auto [y, taken] = at::max_pool2d_with_indices(x, 2);
    ctx->save_for_backward({taken});
    ctx->saved_data["shape"] = x.sizes();
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor taken = ctx->get_saved_variables()[0];
    const std::vector<std::int64_t> shape = ctx->saved_data["shape"].toIntVector();
    const auto spread = [](const at::Tensor& windows) {
      return windows.unsqueeze(3).unsqueeze(5).expand({-1, -1, -1, 2, -1, 2}).flatten(4, 5).flatten(2, 3);
    };
    const at::Tensor elements =
        at::arange(shape[2] * shape[3], taken.options()).view({1, 1, shape[2], shape[3]});
    // An odd last row or column is in no window.
    const std::int64_t height = 2 * taken.size(2);
    const std::int64_t width = 2 * taken.size(3);
    const at::Tensor inside = elements.narrow(2, 0, height).narrow(3, 0, width);
    at::Tensor dx = at::zeros(shape, grads[0].options());
    dx.narrow(2, 0, height).narrow(3, 0, width).copy_(spread(grads[0]).mul(spread(taken).eq(inside)));
    return {dx};
  }
};

}  // namespace

at::Tensor max_pool_2x2(const at::Tensor& x) {
  return device_kernels(x) != nullptr ? MaxPool2x2::apply(x) : at::max_pool2d(x, 2);
}

}  // namespace echelon::ops
