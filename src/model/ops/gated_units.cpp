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

/// Rows that a thread takes at a time.
constexpr std::int64_t kGrain = 16;

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
void gate(const at::Tensor& gate_up, const at::Tensor& result) {
  if (const DeviceKernels* device = device_kernels(gate_up))
    return Kind::forward_on(*device, gate_up, result);
  const std::int64_t n = result.size(1);
  visit(gate_up.scalar_type(), [&]<class T>(ElementTag<T>) {
    at::parallel_for(0, gate_up.size(0), kGrain, [&](std::int64_t from, std::int64_t to) {
      Kind::forward(kernels::kernels<T>())(in<T>(gate_up) + from * 2 * n, out<T>(result) + from * n,
                                           to - from, n);
    });
  });
}

template <class Kind>
void gate_backward(const at::Tensor& gate_up, const at::Tensor& dout, const at::Tensor& dgate_up) {
  if (const DeviceKernels* device = device_kernels(gate_up))
    return Kind::backward_on(*device, gate_up, dout, dgate_up);
  const std::int64_t n = dout.size(1);
  visit(gate_up.scalar_type(), [&]<class T>(ElementTag<T>) {
    at::parallel_for(0, dout.size(0), kGrain, [&](std::int64_t from, std::int64_t to) {
      Kind::backward(kernels::kernels<T>())(in<T>(gate_up) + from * 2 * n, in<T>(dout) + from * n,
                                            out<T>(dgate_up) + from * 2 * n, to - from, n);
    });
  });
}

template <class Kind>
struct Gated : torch::autograd::Function<Gated<Kind>> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& gate_up) {
    at::Tensor result = at::empty({gate_up.size(0), gate_up.size(1) / 2}, gate_up.options());
    ctx->save_for_backward({gate_up});
    gate<Kind>(gate_up, result);
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const at::Tensor dout = grads[0].contiguous();
    at::Tensor dgate_up = at::empty_like(gate_up);
    gate_backward<Kind>(gate_up, dout, dgate_up);
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
