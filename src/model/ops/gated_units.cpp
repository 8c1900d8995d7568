#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

/// SwiGLU (Shazeer, "GLU Variants Improve Transformer", 2020).
struct Swish {
  static constexpr auto forward = [](const auto& table) { return table.swiglu; };
  static constexpr auto backward = [](const auto& table) { return table.swiglu_backward; };
  static void forward_on(const DeviceKernels& device, const at::Tensor& gate_up, const at::Tensor& result) {
    device.swiglu(gate_up, result);
  }
  static void backward_on(const DeviceKernels& device, const at::Tensor& gate_up, const at::Tensor& dout,
                          const at::Tensor& dgate_up) {
    device.swiglu_backward(gate_up, dout, dgate_up);
  }
};
/// GEGLU of the same paper. On a device it uses PyTorch's operations.
struct Gelu {
  static constexpr auto forward = [](const auto& table) { return table.geglu; };
  static constexpr auto backward = [](const auto& table) { return table.geglu_backward; };
  static void forward_on(const DeviceKernels& /*device*/, const at::Tensor& gate_up, at::Tensor result) {
    const auto halves = gate_up.chunk(2, 1);
    at::mul_out(result, at::gelu(halves[0], "tanh"), halves[1]);
  }
  static void backward_on(const DeviceKernels& /*device*/, const at::Tensor& gate_up, const at::Tensor& dout,
                          const at::Tensor& dgate_up) {
    const auto halves = gate_up.chunk(2, 1);
    const auto gradients = dgate_up.chunk(2, 1);
    gradients[0].copy_(at::gelu_backward(dout * halves[1], halves[0], "tanh"));
    gradients[1].copy_(dout * at::gelu(halves[0], "tanh"));
  }
};

template <class Kind>
struct Gated : torch::autograd::Function<Gated<Kind>> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up) {
    const std::int64_t n = gate_up.size(1) / 2;
    at::Tensor result = at::empty({gate_up.size(0), n}, gate_up.options());
    ctx->save_for_backward({gate_up});
    if (const DeviceKernels* device = device_kernels(gate_up)) {
      Kind::forward_on(*device, gate_up, result);
      return result;
    }
    for_all_rows(gate_up, 16, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      Kind::forward(kernels::kernels<T>())(in<T>(gate_up) + first * 2 * n, out<T>(result) + first * n, rows,
                                           n);
    });
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const at::Tensor dout = grads[0].contiguous();
    const std::int64_t n = dout.size(1);
    at::Tensor dgate_up = at::empty_like(gate_up);
    if (const DeviceKernels* device = device_kernels(gate_up)) {
      Kind::backward_on(*device, gate_up, dout, dgate_up);
      return {dgate_up};
    }
    for_all_rows(gate_up, 16, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      Kind::backward(kernels::kernels<T>())(in<T>(gate_up) + first * 2 * n, in<T>(dout) + first * n,
                                            out<T>(dgate_up) + first * 2 * n, rows, n);
    });
    return {dgate_up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  return Gated<Swish>::apply(gate_up);
}

at::Tensor geglu(const at::Tensor& gate_up) {
  return Gated<Gelu>::apply(gate_up);
}

}  // namespace echelon::ops
