#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"
#include "model/ops/products/product.h"

namespace echelon::ops {
namespace {

/// A chunk's logits stay within this many bytes; on a GPU, within DeviceKernels::logits_bytes().
constexpr std::int64_t kChunkBytes = std::int64_t{128} << 20;
/// Products of a GPU are made of tiles of at most this many rows.
constexpr std::int64_t kDeviceTile = 256;

/// The cross entropy of each row, fp32 [rows]. With `scale` the logits become their gradient.
at::Tensor row_losses(const at::Tensor& logits, const at::Tensor& targets, const double* scale) {
  const at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  if (const DeviceKernels* device = device_kernels(logits)) {
    device->cross_entropy(logits, targets, losses, scale);
    return losses;
  }
  const std::int64_t vocab = logits.size(1);
  for_all_rows(logits, 4, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
    kernels::kernels<T>().cross_entropy(out<T>(logits) + first * vocab, rows, vocab,
                                        in<std::int64_t>(targets) + first, scale, out<float>(losses) + first);
  });
  return losses;
}

/// fp32 scalar.
at::Tensor sum_of(const at::Tensor& losses) {
  if (device_kernels(losses) != nullptr) return losses.sum(at::kDouble).to(at::kFloat);
  // In row order and fp64, so the loss does not depend on the number of threads.
  const auto* first = in<float>(losses);
  return at::scalar_tensor(std::accumulate(first, first + losses.numel(), 0.0), at::kFloat);
}

std::int64_t chunk_rows(const at::Tensor& x, const Parameter& weight) {
  const std::int64_t row_bytes = weight.shape()[0] * static_cast<std::int64_t>(x.element_size());
  const DeviceKernels* device = device_kernels(x);
  const std::int64_t bytes = device != nullptr ? device->logits_bytes() : kChunkBytes;
  const std::int64_t rows = std::max<std::int64_t>(1, bytes / row_bytes);
  return device == nullptr || rows < kDeviceTile ? rows : rows / kDeviceTile * kDeviceTile;
}

/// sum (+)= a * b in fp32: in bf16 each addition would round away part of the earlier ones.
void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) {
  if (const DeviceKernels* device = device_kernels(a)) {
    const bool first = !sum.defined();
    if (first) sum = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
    device->product(a, b, sum, !first);
  } else {
    const at::Tensor part = product(a, b);
    sum = sum.defined() ? sum.add_(part) : part.to(at::kFloat);
  }
}

at::Tensor logits_of(const at::Tensor& x, const at::Tensor& value, at::ScalarType output) {
  at::Tensor logits = product(x, value.t());
  // Rounded as the results of a module with this output type.
  if (static_cast<std::int64_t>(c10::elementSize(output)) < logits.element_size())
    logits.copy_(logits.to(output));
  return logits;
}

/// Calls f(first row, rows, their cross entropies) for each chunk of x.
template <class F>
void for_each_chunk(const at::Tensor& x, const Parameter& weight, const at::Tensor& targets,
                    at::ScalarType output, const F& f) {
  const std::int64_t step = chunk_rows(x, weight);
  for (std::int64_t begin = 0; begin < x.size(0); begin += step) {
    const std::int64_t rows = std::min(step, x.size(0) - begin);
    const at::Tensor logits = logits_of(x.narrow(0, begin, rows), weight.value, output);
    f(begin, rows, row_losses(logits, targets.narrow(0, begin, rows), nullptr));
  }
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& value,
                            Parameter* weight, const at::Tensor& targets, double scale, at::ScalarType output,
                            const at::Tensor* weights) {
    // Gradients are computed here, in forward, while a chunk's logits exist: all logits at once would be
    // the largest tensor of the step (as in Liger Kernel's fused linear cross entropy).
    const std::int64_t step = chunk_rows(x, *weight);
    at::Tensor loss = at::zeros({}, x.options().dtype(at::kFloat));
    const bool trains = value.requires_grad();
    const at::Tensor dx = x.requires_grad() ? at::empty_like(x) : at::Tensor();
    at::Tensor dw;  // what deposit() returns without a sink
    at::Tensor sum;
    for (std::int64_t begin = 0; begin < x.size(0); begin += step) {
      const std::int64_t rows = std::min(step, x.size(0) - begin);
      at::Tensor xs = x.narrow(0, begin, rows);
      at::Tensor logits = logits_of(xs, value, output);
      loss += sum_of(row_losses(logits, targets.narrow(0, begin, rows), &scale));
      if (dx.defined()) {
        at::Tensor dx_rows = dx.narrow(0, begin, rows);
        product_into(dx_rows, logits, value, false);
      }
      if (weights != nullptr) {
        // Rows of the input are shorter than those of the logits, and both products are linear in them.
        const at::Tensor factors = weights->narrow(0, begin, rows).unsqueeze(1);
        if (dx.defined()) dx.narrow(0, begin, rows).mul_(factors);
        if (trains) xs = (xs * factors).to(x.scalar_type());
      }
      if (!trains) continue;
      if (rows == x.size(0)) {
        dw = deposit_product(*weight, logits.t(), xs);
      } else {
        add_product(sum, logits.t(), xs);
      }
    }
    if (sum.defined()) dw = deposit(*weight, sum);
    ctx->save_for_backward({dx});
    ctx->saved_data["dw"] = dw;
    return loss;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (grads[0].is_cpu() && grads[0].item<float>() != 1.0F) {
      throw Error(
          Code::kUsage,
          "linear_cross_entropy: call backward() on its result itself; pass factors as gradient_scale");
    }
    const auto& dw = ctx->saved_data["dw"];
    return {ctx->get_saved_variables()[0], dw.isTensor() ? dw.toTensor() : at::Tensor(), {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x, Parameter& weight, const at::Tensor& targets,
                                double gradient_scale, at::ScalarType output, const at::Tensor& weights) {
  if (!at::GradMode::is_enabled()) {
    at::Tensor loss = at::zeros({}, x.options().dtype(at::kFloat));
    for_each_chunk(x, weight, targets, output,
                   [&](std::int64_t, std::int64_t, const at::Tensor& losses) { loss += sum_of(losses); });
    return loss;
  }
  return LinearCrossEntropy::apply(x, weight.value, &weight, targets, gradient_scale, output,
                                   weights.defined() ? &weights : nullptr);
}

at::Tensor token_losses(const at::Tensor& x, const Parameter& weight, const at::Tensor& targets,
                        at::ScalarType output) {
  at::Tensor losses = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
  for_each_chunk(x, weight, targets, output,
                 [&](std::int64_t begin, std::int64_t rows, const at::Tensor& chunk) {
                   losses.narrow(0, begin, rows).copy_(chunk);
                 });
  return losses;
}

}  // namespace echelon::ops
