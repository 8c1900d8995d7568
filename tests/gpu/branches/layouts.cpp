// On the CPU PyTorch's attention lays its results and gradients as our code expects them from a GPU. Each of
// a GPU's kernels lays them in its own way, so here they lie as none does: results [heads, batch, T, d],
// gradients [batch, heads, T, d], both seen as [batch, heads, T, d].
#include <ATen/ATen.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace echelon::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LayGradient : torch::autograd::Function<LayGradient> {
  static at::Tensor forward(AutogradContext* /*ctx*/, const at::Tensor& x) { return x; }
  static variable_list backward(AutogradContext* /*ctx*/, variable_list grads) {
    return {grads[0].clone(at::MemoryFormat::Contiguous)};
  }
};

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, double dropout, bool causal,
                     std::optional<double> scale, bool grouped) {
  const at::Tensor result =
      at::native::scaled_dot_product_attention(LayGradient::apply(q), LayGradient::apply(k),
                                               LayGradient::apply(v), mask, dropout, causal, scale, grouped);
  return result.transpose(0, 1).clone(at::MemoryFormat::Contiguous).transpose(0, 1);
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) {
  m.impl("scaled_dot_product_attention", &attention);
}

}  // namespace
}  // namespace echelon::ops
