#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

/// Columns [first, first + heads * size) of projection rows: one kind of heads, or of all heads as one.
struct Columns {
  std::int64_t first;
  std::int64_t heads;

  /// [rows, heads * size] -> [rows * heads, size], dense.
  [[nodiscard]] at::Tensor dense(const at::Tensor& rows, std::int64_t size) const {
    // A single head is a view of its columns, which kernels would read as if it were dense.
    return rows.narrow(1, first, heads * size).reshape({-1, size}).contiguous();
  }
  void put(const at::Tensor& dense, const at::Tensor& rows, std::int64_t size) const {
    rows.narrow(1, first, heads * size).copy_(dense.view({rows.size(0), heads * size}));
  }
};

/// The options of a norm.
struct Arithmetic {
  double eps;
  NormRounding rounding;
};

struct HeadNorm : torch::autograd::Function<HeadNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const at::Tensor& q_value,
                            const at::Tensor& k_value, Parameter* q, Parameter* k, std::int64_t kv_width,
                            const Arithmetic& arithmetic) {
    const std::int64_t values = qkv.size(1) - kv_width;
    const Columns of_q{0, (values - kv_width) / q_value.numel()};
    const Columns of_k{values - kv_width, kv_width / k_value.numel()};
    at::Tensor y = at::empty_like(qkv);
    at::Tensor inv_q = at::empty({qkv.size(0), of_q.heads}, qkv.options().dtype(at::kFloat));
    at::Tensor inv_k = at::empty({qkv.size(0), of_k.heads}, inv_q.options());
    ctx->save_for_backward({qkv, inv_q, inv_k});
    ctx->saved_data["q"] = reinterpret_cast<std::int64_t>(q);
    ctx->saved_data["k"] = reinterpret_cast<std::int64_t>(k);
    ctx->saved_data["rounding"] = static_cast<std::int64_t>(arithmetic.rounding);
    norm(qkv, q_value, of_q, y, inv_q, arithmetic);
    norm(qkv, k_value, of_k, y, inv_k, arithmetic);
    y.narrow(1, values, kv_width).copy_(qkv.narrow(1, values, kv_width));
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& q = *reinterpret_cast<Parameter*>(ctx->saved_data["q"].toInt());
    auto& k = *reinterpret_cast<Parameter*>(ctx->saved_data["k"].toInt());
    const auto rounding = static_cast<NormRounding>(ctx->saved_data["rounding"].toInt());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor dy = grads[0].contiguous();
    const Columns of_q{0, saved[1].size(1)};
    const Columns of_k{of_q.heads * q.value.numel(), saved[2].size(1)};
    const std::int64_t kv_width = of_k.heads * k.value.numel();
    const std::int64_t values = of_k.first + kv_width;
    at::Tensor dx = at::empty_like(dy);
    const at::Tensor dq = norm_backward(dy, saved[0], q, of_q, saved[1], dx, rounding);
    const at::Tensor dk = norm_backward(dy, saved[0], k, of_k, saved[2], dx, rounding);
    dx.narrow(1, values, kv_width).copy_(dy.narrow(1, values, kv_width));
    return {dx, deposit(q, dq), deposit(k, dk), {}, {}, {}, {}};
  }

 private:
  static void norm(const at::Tensor& x, const at::Tensor& weight, const Columns& columns, const at::Tensor& y,
                   const at::Tensor& inv_rms, const Arithmetic& arithmetic) {
    const std::int64_t n = weight.numel();
    if (const DeviceKernels* device = device_kernels(x)) {
      const at::Tensor dense = columns.dense(x, n);
      const at::Tensor normed = at::empty_like(dense);
      device->rms_norm(dense, {}, {}, weight, normed, inv_rms.view({-1}), arithmetic.eps,
                       arithmetic.rounding);
      columns.put(normed, y, n);
      return;
    }
    for_all_rows(x, 32, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t rows) {
      const std::int64_t at = first * x.size(1) + columns.first;
      kernels::kernels<T>().rms_norm(in<T>(x) + at, nullptr, nullptr, in<T>(weight), out<T>(y) + at,
                                     out<float>(inv_rms) + first * columns.heads,
                                     {columns.heads, n, rows, x.size(1)}, static_cast<float>(arithmetic.eps),
                                     arithmetic.rounding);
    });
  }

  /// Returns the gradient of the weight.
  static at::Tensor norm_backward(const at::Tensor& dy, const at::Tensor& x, const Parameter& weight,
                                  const Columns& columns, const at::Tensor& inv_rms, const at::Tensor& dx,
                                  NormRounding rounding) {
    const std::int64_t n = weight.value.numel();
    if (const DeviceKernels* device = device_kernels(x)) {
      at::Tensor dw = at::empty({n}, inv_rms.options());
      const at::Tensor dense = at::empty({x.size(0) * columns.heads, n}, x.options());
      device->rms_norm_backward(columns.dense(dy, n), {}, columns.dense(x, n), weight.value,
                                inv_rms.view({-1}), dense, dw, rounding);
      columns.put(dense, dx, n);
      return dw;
    }
    const PartialSums dw(weight, x);
    for_each_partial(x, [&]<class T>(ElementTag<T>, std::int64_t p, std::int64_t first, std::int64_t rows) {
      const std::int64_t at = first * x.size(1) + columns.first;
      kernels::kernels<T>().rms_norm_backward(in<T>(dy) + at, nullptr, in<T>(x) + at, in<T>(weight.value),
                                              in<float>(inv_rms) + first * columns.heads, out<T>(dx) + at,
                                              dw.row(p), {columns.heads, n, rows, x.size(1)}, rounding);
    });
    return dw.total();
  }
};

}  // namespace

at::Tensor head_norm(const at::Tensor& qkv, Parameter& q, Parameter& k, std::int64_t kv_width, double eps,
                     NormRounding rounding) {
  return HeadNorm::apply(qkv, q.value, k.value, &q, &k, kv_width, Arithmetic{eps, rounding});
}

}  // namespace echelon::ops
