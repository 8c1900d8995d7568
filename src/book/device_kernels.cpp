#include "book/device_kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <initializer_list>

#include "book/books.h"
#include "book/operations.h"

namespace echelon::book {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One pass over each of these tensors.
void pass(const char* name, const at::Tensor& kind, std::initializer_list<at::Tensor> tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors)
    bytes += tensor.defined() ? static_cast<double>(tensor.nbytes()) : 0;
  books().work(name, forecast::Cost::kMemory, type_of(kind), 0, bytes);
}

/// Keys that a query of sequences of this length sees on average.
double keys_seen(const ops::Borders& keys, const at::Tensor& k, const ops::AttentionOptions& options) {
  const auto sequences = static_cast<double>(keys.at.numel() - 1);
  const double length = static_cast<double>(k.size(0)) / sequences;
  if (!options.causal) return length;
  const auto window = static_cast<double>(options.window);
  if (options.window == 0 || window >= length) return (length + 1) / 2;
  return window - window * (window - 1) / (2 * length);
}

/// Keeps what flash attention keeps: operands, result and the logarithms of the sums.
struct Attend : torch::autograd::Function<Attend> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, double keys) {
    at::Tensor result = at::empty(q.sizes(), q.options());
    const at::Tensor sums = at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
    record_attention(q, keys, false);
    ctx->save_for_backward({q, k, v, result, sums});
    ctx->saved_data["keys"] = keys;
    return result;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& /*grads*/) {
    const variable_list saved = ctx->get_saved_variables();
    const double keys = ctx->saved_data["keys"].toDouble();
    ctx->saved_data.clear();
    variable_list results;
    for (std::size_t i = 0; i < 3; ++i) results.push_back(at::empty(saved[i].sizes(), saved[i].options()));
    // Gradients of queries are summed in fp32.
    const at::Tensor sums = at::empty(saved[0].sizes(), saved[0].options().dtype(at::kFloat));
    record_attention(saved[0], keys, true);
    results.emplace_back();
    return results;
  }
};

class RecordingKernels final : public ops::DeviceKernels {
 public:
  void rms_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& sum, const at::Tensor& weight,
                const at::Tensor& y, const at::Tensor&, double, NormRounding) const override {
    pass("rms_norm", x, {x, added, sum, weight, y});
  }
  void rms_norm_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& x,
                         const at::Tensor& weight, const at::Tensor&, const at::Tensor& dx,
                         const at::Tensor& dw, NormRounding) const override {
    pass("rms_norm_backward", x, {dy, dsum, x, weight, dx, dw});
  }
  void swiglu(const at::Tensor& gate_up, const at::Tensor& result) const override {
    pass("swiglu", gate_up, {gate_up, result});
  }
  void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout,
                       const at::Tensor& dgate_up) const override {
    pass("swiglu_backward", gate_up, {gate_up, dout, dgate_up});
  }
  void rope_split(const at::Tensor& qkv, const at::Tensor&, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) const override {
    pass("rope_split", qkv, {qkv, q, k, v});
  }
  void rope_merge(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor&,
                  const at::Tensor& dqkv) const override {
    pass("rope_merge", dq, {dq, dk, dv, dqkv});
  }
  void cross_entropy(const at::Tensor& logits, const at::Tensor&, const at::Tensor&,
                     const double* scale) const override {
    if (scale == nullptr) return pass("cross_entropy", logits, {logits});
    // The gradient needs each row once more: the kernel keeps 224 KiB of it where a block has 227 KiB of
    // shared memory, as from compute capability 9.0 on. The A100 keeps 160 KiB; the record is the same for
    // all devices.
    constexpr double kKept = 224 << 10;
    const auto bytes = static_cast<double>(logits.nbytes());
    const double again = std::max(bytes - kKept * static_cast<double>(logits.size(0)), 0.0);
    books().work("cross_entropy", forecast::Cost::kMemory, type_of(logits), 0, 2 * bytes + again);
  }
  void dropout(const at::Tensor& x, const at::Tensor& y, const ops::DropoutRows&) const override {
    pass("dropout", x, {x, y});
  }
  void sum_of_squares(const at::Tensor& values, const at::Tensor&) const override {
    pass("sum_of_squares", values, {values});
  }
  void adamw(const kernels::AdamWValues&, const at::Tensor& weights, const at::Tensor& gradient,
             const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) const override {
    pass("adamw", weights, {weights, weights, gradient, exp_avg, exp_avg, exp_avg_sq, exp_avg_sq});
  }
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::Borders& /*queries*/, const ops::Borders& keys,
                    const ops::AttentionOptions& options) const override {
    return Attend::apply(q, k, v, keys_seen(keys, k, options));
  }
  void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
               bool accumulate) const override {
    const double flops = 2.0 * static_cast<double>(sum.numel()) * static_cast<double>(a.size(1));
    const auto bytes = static_cast<double>(a.nbytes() + b.nbytes() + sum.nbytes() * (accumulate ? 2 : 1));
    books().work("mm", forecast::Cost::kProduct, type_of(a), flops, bytes);
  }
  void cast(const at::Tensor& from, const at::Tensor& to) const override { pass("cast", to, {from, to}); }
  void fp8_scale(const at::Tensor& matrix, at::ScalarType, const at::Tensor&) const override {
    pass("fp8_scale", matrix, {matrix});
  }
  void fp8_cast(const at::Tensor& matrix, const at::Tensor&, const at::Tensor& rows,
                const at::Tensor& transposed) const override {
    pass("fp8_cast", matrix, {matrix, rows, transposed});
  }
  void fp8_transpose(const at::Tensor& rows, const at::Tensor& transposed) const override {
    pass("fp8_transpose", rows, {rows, transposed});
  }
};

}  // namespace

std::shared_ptr<const ops::DeviceKernels> recording_device_kernels() {
  return std::make_shared<const RecordingKernels>();
}

}  // namespace echelon::book
