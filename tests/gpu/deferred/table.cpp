// The CPU's kernels over the device's bytes, in the order of the current stream.
#include <ATen/ATen.h>

#include "gpu/branches/cpu_table.h"
#include "gpu/deferred/deferred_device.h"

namespace echelon::test::deferred {
namespace {

using Tensors = std::vector<at::Tensor>;

class Table final : public ops::DeviceKernels {
 public:
  void rms_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& sum, const at::Tensor& weight,
                const at::Tensor& y, const at::Tensor& inv_rms, double eps,
                NormRounding rounding) const override {
    run("rms_norm", {x, added, weight}, {sum, y, inv_rms}, [&](const Tensors& in, const Tensors& out) {
      cpu_->rms_norm(in[0], in[1], out[0], in[2], out[1], out[2], eps, rounding);
    });
  }
  void rms_norm_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& x,
                         const at::Tensor& weight, const at::Tensor& inv_rms, const at::Tensor& dx,
                         const at::Tensor& dw, NormRounding rounding) const override {
    run("rms_norm_backward", {dy, dsum, x, weight, inv_rms}, {dx, dw},
        [&](const Tensors& in, const Tensors& out) {
          cpu_->rms_norm_backward(in[0], in[1], in[2], in[3], in[4], out[0], out[1], rounding);
        });
  }
  void swiglu(const at::Tensor& gate_up, const at::Tensor& result) const override {
    run("swiglu", {gate_up}, {result},
        [&](const Tensors& in, const Tensors& out) { cpu_->swiglu(in[0], out[0]); });
  }
  void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout,
                       const at::Tensor& dgate_up) const override {
    run("swiglu_backward", {gate_up, dout}, {dgate_up},
        [&](const Tensors& in, const Tensors& out) { cpu_->swiglu_backward(in[0], in[1], out[0]); });
  }
  void rope_split(const at::Tensor& qkv, const at::Tensor& cos_sin, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) const override {
    run("rope_split", {qkv, cos_sin}, {q, k, v}, [&](const Tensors& in, const Tensors& out) {
      cpu_->rope_split(in[0], in[1], out[0], out[1], out[2]);
    });
  }
  void rope_merge(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& cos_sin,
                  const at::Tensor& dqkv) const override {
    run("rope_merge", {dq, dk, dv, cos_sin}, {dqkv},
        [&](const Tensors& in, const Tensors& out) { cpu_->rope_merge(in[0], in[1], in[2], in[3], out[0]); });
  }
  void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses,
                     const double* scale) const override {
    run("cross_entropy", {targets}, {logits, losses},
        [&](const Tensors& in, const Tensors& out) { cpu_->cross_entropy(out[0], in[0], out[1], scale); });
  }
  void dropout(const at::Tensor& x, const at::Tensor& y, const ops::DropoutRows& rows) const override {
    run("dropout", {x, rows.samples, rows.places}, {y}, [&](const Tensors& in, const Tensors& out) {
      ops::DropoutRows here = rows;
      here.samples = in[1];
      here.places = in[2];
      cpu_->dropout(in[0], out[0], here);
    });
  }
  void sum_of_squares(const at::Tensor& values, const at::Tensor& result) const override {
    run("sum_of_squares", {values}, {result},
        [&](const Tensors& in, const Tensors& out) { cpu_->sum_of_squares(in[0], out[0]); });
  }
  void adamw(const kernels::AdamWValues& values, const at::Tensor& weights, const at::Tensor& gradient,
             const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) const override {
    run("adamw", {gradient}, {weights, exp_avg, exp_avg_sq},
        [&](const Tensors& in, const Tensors& out) { cpu_->adamw(values, out[0], in[0], out[1], out[2]); });
  }
  [[nodiscard]] at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const ops::Borders& queries, const ops::Borders& keys,
                                  const ops::AttentionOptions& options) const override {
    return cpu_->attend(q, k, v, queries, keys, options);  // made of PyTorch's operations
  }
  /// A few rows of the smallest models.
  [[nodiscard]] std::int64_t logits_bytes() const override { return std::int64_t{16} << 10; }
  void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
               bool accumulate) const override {
    run("product", {a, b}, {sum},
        [&](const Tensors& in, const Tensors& out) { cpu_->product(in[0], in[1], out[0], accumulate); });
  }
  void cast(const at::Tensor& from, const at::Tensor& to) const override {
    run("cast", {from}, {to}, [&](const Tensors& in, const Tensors& out) { cpu_->cast(in[0], out[0]); });
  }
  void fp8_scale(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) const override {
    run("fp8_scale", {matrix}, {scale},
        [&](const Tensors& in, const Tensors& out) { cpu_->fp8_scale(in[0], type, out[0]); });
  }
  void fp8_cast(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                const at::Tensor& transposed) const override {
    run("fp8_cast", {matrix, scale}, {rows, transposed},
        [&](const Tensors& in, const Tensors& out) { cpu_->fp8_cast(in[0], in[1], out[0], out[1]); });
  }
  void fp8_transpose(const at::Tensor& rows, const at::Tensor& transposed) const override {
    run("fp8_transpose", {rows}, {transposed},
        [&](const Tensors& in, const Tensors& out) { cpu_->fp8_transpose(in[0], out[0]); });
  }

 private:
  template <class F>
  static void run(const char* what, const Tensors& from, const Tensors& to, const F& f) {
    std::vector<Access> accesses;
    Tensors in;
    Tensors out;
    for (const at::Tensor& tensor : from) {
      if (tensor.defined()) accesses.push_back(reads(tensor));
      in.push_back(tensor.defined() ? on_host(tensor) : tensor);
    }
    for (const at::Tensor& tensor : to) {
      if (tensor.defined()) accesses.push_back(writes(tensor));
      out.push_back(tensor.defined() ? on_host(tensor) : tensor);
    }
    compute(current_stream(), what, accesses, [&] { f(in, out); });
  }

  std::shared_ptr<const ops::DeviceKernels> cpu_ = ops::cpu_table();
};

}  // namespace

void install_kernels() {
  ops::install_device_kernels(std::make_shared<const Table>(), device().type());
}

}  // namespace echelon::test::deferred
