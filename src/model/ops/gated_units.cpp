#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

/// GEGLU on a device.
void geglu_of(const at::Tensor& gate_up, at::Tensor result) {
  const auto halves = gate_up.chunk(2, 1);
  at::mul_out(result, at::gelu(halves[0], "tanh"), halves[1]);
}
void geglu_backward_of(const at::Tensor& gate_up, const at::Tensor& dout, const at::Tensor& dgate_up) {
  const auto halves = gate_up.chunk(2, 1);
  const auto gradients = dgate_up.chunk(2, 1);
  gradients[0].copy_(at::gelu_backward(dout * halves[1], halves[0], "tanh"));
  gradients[1].copy_(dout * at::gelu(halves[0], "tanh"));
}

/// SwiGLU, or with `gelu` GEGLU (Shazeer, "GLU Variants Improve Transformer", 2020).
struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up, bool gelu) {
    const std::int64_t n = gate_up.size(1) / 2;
    at::Tensor result = at::empty({gate_up.size(0), n}, gate_up.options());
    ctx->save_for_backward({gate_up});
    ctx->saved_data["gelu"] = gelu;
    if (const DeviceKernels* device = device_kernels(gate_up)) {
      gelu ? geglu_of(gate_up, result) : device->swiglu(gate_up, result);
      return result;
    }
    for_all_rows(gate_up, 16, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      const kernels::Table<T>& table = kernels::kernels<T>();
      (gelu ? table.geglu : table.swiglu)(in<T>(gate_up) + first * 2 * n, out<T>(result) + first * n, rows,
                                          n);
    });
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const bool gelu = ctx->saved_data["gelu"].toBool();
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const at::Tensor dout = grads[0].contiguous();
    const std::int64_t n = dout.size(1);
    at::Tensor dgate_up = at::empty_like(gate_up);
    if (const DeviceKernels* device = device_kernels(gate_up)) {
      gelu ? geglu_backward_of(gate_up, dout, dgate_up) : device->swiglu_backward(gate_up, dout, dgate_up);
      return {dgate_up, {}};
    }
    for_all_rows(gate_up, 16, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      const kernels::Table<T>& table = kernels::kernels<T>();
      (gelu ? table.geglu_backward : table.swiglu_backward)(
          in<T>(gate_up) + first * 2 * n, in<T>(dout) + first * n, out<T>(dgate_up) + first * 2 * n, rows, n);
    });
    return {dgate_up, {}};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  return Gated::apply(gate_up, false);
}

at::Tensor geglu(const at::Tensor& gate_up) {
  return Gated::apply(gate_up, true);
}

}  // namespace echelon::ops
