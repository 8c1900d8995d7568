#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up) {
    const std::int64_t n = gate_up.size(1) / 2;
    at::Tensor result = at::empty({gate_up.size(0), n}, gate_up.options());
    ctx->save_for_backward({gate_up});
    if (gate_up.is_cuda()) {
      device_kernels().swiglu(gate_up, result);
      return result;
    }
    visit(gate_up.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      at::parallel_for(0, gate_up.size(0), 16, [&](std::int64_t from, std::int64_t to) {
        kernels::kernels<T>().swiglu(in<T>(gate_up) + from * 2 * n, out<T>(result) + from * n, to - from, n);
      });
    });
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const at::Tensor dout = grads[0].contiguous();
    const std::int64_t n = dout.size(1);
    at::Tensor dgate_up = at::empty_like(gate_up);
    if (gate_up.is_cuda()) {
      device_kernels().swiglu_backward(gate_up, dout, dgate_up);
      return {dgate_up};
    }
    visit(gate_up.scalar_type(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      at::parallel_for(0, dout.size(0), 16, [&](std::int64_t from, std::int64_t to) {
        kernels::kernels<T>().swiglu_backward(in<T>(gate_up) + from * 2 * n, in<T>(dout) + from * n,
                                              out<T>(dgate_up) + from * 2 * n, to - from, n);
      });
    });
    return {dgate_up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  return SwiGlu::apply(gate_up);
}

}  // namespace echelon::ops
