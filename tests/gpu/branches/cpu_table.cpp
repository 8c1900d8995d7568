#include "gpu/branches/cpu_table.h"

#include <ATen/ATen.h>

#include "model/kernels/kernels.h"
#include "model/ops/access.h"
#include "model/ops/device_kernels.h"

namespace echelon::ops {
namespace {

class CpuTable final : public DeviceKernels {
 public:
  void rms_norm(const at::Tensor& x, const at::Tensor& added, const at::Tensor& sum, const at::Tensor& weight,
                const at::Tensor& y, const at::Tensor& inv_rms, double eps,
                NormRounding rounding) const override {
    visit(x.scalar_type(), [&]<class T>(ElementTag<T>) {
      kernels::kernels<T>().rms_norm(in<T>(x), in_or_null<T>(added), out_or_null<T>(sum), in<T>(weight),
                                     out<T>(y), out<float>(inv_rms), {x.size(0), x.size(1)},
                                     static_cast<float>(eps), rounding);
    });
  }

  void rms_norm_backward(const at::Tensor& dy, const at::Tensor& dsum, const at::Tensor& x,
                         const at::Tensor& weight, const at::Tensor& inv_rms, const at::Tensor& dx,
                         const at::Tensor& dw, NormRounding rounding) const override {
    const std::int64_t n = x.size(1);
    const at::Tensor partial = at::zeros({kPartials, n}, dw.options());
    for_each_partial(x, [&]<class T>(ElementTag<T>, std::int64_t p, std::int64_t first, std::int64_t rows) {
      kernels::kernels<T>().rms_norm_backward(in<T>(dy) + first * n, in_or_null<T>(dsum, first * n),
                                              in<T>(x) + first * n, in<T>(weight), in<float>(inv_rms) + first,
                                              out<T>(dx) + first * n, out<float>(partial) + p * n, {rows, n},
                                              rounding);
    });
    dw.copy_(partial.sum(0));
  }

  void swiglu(const at::Tensor& gate_up, const at::Tensor& result) const override {
    visit(gate_up.scalar_type(), [&]<class T>(ElementTag<T>) {
      kernels::kernels<T>().swiglu(in<T>(gate_up), out<T>(result), result.size(0), result.size(1));
    });
  }
  void swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout,
                       const at::Tensor& dgate_up) const override {
    visit(gate_up.scalar_type(), [&]<class T>(ElementTag<T>) {
      kernels::kernels<T>().swiglu_backward(in<T>(gate_up), in<T>(dout), out<T>(dgate_up), dout.size(0),
                                            dout.size(1));
    });
  }

  void rope_split(const at::Tensor& qkv, const at::Tensor& cos_sin, const at::Tensor& q, const at::Tensor& k,
                  const at::Tensor& v) const override {
    const Heads to(q, k, v, false);
    to.for_each_sample(cos_sin, qkv,
                       [&]<class T>(ElementTag<T>, std::int64_t first, auto* q_at, auto* k_at, auto* v_at,
                                    const auto& angles) {
                         kernels::kernels<T>().rope_split(in<T>(qkv) + first * qkv.size(1), q_at, k_at, v_at,
                                                          angles, 0, to.shape.seq_len, to.shape);
                       });
    q.copy_(to.q.transpose(1, 2));
    k.copy_(to.k.transpose(1, 2));
    v.copy_(to.v.transpose(1, 2));
  }
  void rope_merge(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv, const at::Tensor& cos_sin,
                  const at::Tensor& dqkv) const override {
    const Heads from(dq, dk, dv, true);
    from.for_each_sample(cos_sin, dqkv,
                         [&]<class T>(ElementTag<T>, std::int64_t first, auto* q_at, auto* k_at, auto* v_at,
                                      const auto& angles) {
                           kernels::kernels<T>().rope_merge(out<T>(dqkv) + first * dqkv.size(1), q_at, k_at,
                                                            v_at, angles, 0, from.shape.seq_len, from.shape);
                         });
  }

  void cross_entropy(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& losses,
                     const double* scale) const override {
    visit(logits.scalar_type(), [&]<class T>(ElementTag<T>) {
      kernels::kernels<T>().cross_entropy(out<T>(logits), logits.size(0), logits.size(1),
                                          in<std::int64_t>(targets), scale, out<float>(losses));
    });
  }

  void dropout(const at::Tensor& x, const at::Tensor& y, const DropoutRows& rows) const override {
    const kernels::DropoutValues values{rows.key, rows.threshold, rows.factor, in<std::int64_t>(rows.samples),
                                        in<std::int64_t>(rows.places)};
    visit(x.scalar_type(), [&]<class T>(ElementTag<T>) {
      kernels::kernels<T>().dropout(in<T>(x), out<T>(y), x.size(0), x.numel() / x.size(0), values, false);
    });
  }

  void sum_of_squares(const at::Tensor& values, const at::Tensor& result) const override {
    result.fill_(kernels::tables().sum_of_squares(in<float>(values), values.numel()));
  }

  void adamw(const kernels::AdamWValues& values, const at::Tensor& weights, const at::Tensor& gradient,
             const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq) const override {
    const at::Tensor divisor = at::full({}, 1.0 / values.gradient_factor, at::kFloat);
    const at::Tensor number = at::full({}, static_cast<double>(values.number), at::kFloat);
    at::Tensor read = gradient.clone();  // PyTorch's kernel writes the divided gradient back
    at::_fused_adamw_({weights}, {read}, {exp_avg}, {exp_avg_sq}, {}, {number}, values.lr, values.beta1,
                      values.beta2, values.weight_decay, values.eps, false, false, divisor, {});
  }

  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Borders& queries,
                    const Borders& keys, const AttentionOptions& options) const override {
    const auto heads = [](const at::Tensor& x, const at::Tensor& borders, std::int64_t s) {
      const std::int64_t begin = borders[s].item<std::int64_t>();
      const std::int64_t rows = borders[s + 1].item<std::int64_t>() - begin;
      return x.narrow(0, begin, rows).transpose(0, 1).unsqueeze(0);
    };
    std::vector<at::Tensor> results;
    for (std::int64_t s = 0; s + 1 < queries.at.numel(); ++s) {
      const at::Tensor qs = heads(q, queries.at, s);
      std::optional<at::Tensor> seen;
      if (options.window > 0) {
        const at::Tensor all = at::ones({qs.size(2), qs.size(2)}, at::kBool);
        seen = all.tril().logical_and(all.triu(1 - options.window));
      }
      const at::Tensor result =
          at::scaled_dot_product_attention(qs, heads(k, keys.at, s), heads(v, keys.at, s), seen, 0.0,
                                           options.causal && !seen, options.scale, q.size(1) != k.size(1));
      results.push_back(result.squeeze(0).transpose(0, 1));
    }
    return at::cat(results);
  }

  /// So that tests have several chunks.
  [[nodiscard]] std::int64_t logits_bytes() const override { return std::int64_t{64} << 20; }

  void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum,
               bool accumulate) const override {
    const at::Tensor part = at::mm(a.to(at::kFloat), b.to(at::kFloat));
    if (accumulate) {
      sum.add_(part);
    } else {
      sum.copy_(part);
    }
  }

  void cast(const at::Tensor& from, const at::Tensor& to) const override {
    visit(to.scalar_type(), [&]<class T>(ElementTag<T>) {
      kernels::kernels<T>().from_float(in<float>(from), out<T>(to), from.numel());
    });
  }

  void fp8_scale(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale) const override {
    const double largest = type == at::kFloat8_e5m2 ? 57344 : 448;
    const auto of = static_cast<float>(largest / std::max(matrix.abs().max().item<double>(), 1e-12));
    scale.copy_(at::tensor({of, 1 / of}));
  }
  void fp8_cast(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                const at::Tensor& transposed) const override {
    const at::Tensor values = matrix.to(at::kFloat) * scale[0];
    if (rows.defined()) rows.copy_(values);
    if (transposed.defined()) transposed.zero_().narrow(1, 0, matrix.size(0)).copy_(values.t());
  }
  void fp8_transpose(const at::Tensor& rows, const at::Tensor& transposed) const override {
    transposed.copy_(rows.t());
  }

 private:
  /// Heads in the CPU's order, [batch, heads, T, head_dim].
  struct Heads {
    Heads(const at::Tensor& like_q, const at::Tensor& like_k, const at::Tensor& like_v, bool filled)
        : shape{like_q.size(1), like_q.size(2), like_k.size(2), like_q.size(3)} {
      const auto ordered = [&](const at::Tensor& like) {
        const at::Tensor by_head = like.transpose(1, 2);
        return filled ? by_head.contiguous() : at::empty(by_head.sizes(), by_head.options());
      };
      q = ordered(like_q);
      k = ordered(like_k);
      v = ordered(like_v);
    }
    /// f(type, first row of a sample, where the sample has its heads: q, k and v, angles of its rows).
    template <class F>
    void for_each_sample(const at::Tensor& cos_sin, const at::Tensor& rows, const F& f) const {
      const at::Tensor places = at::arange(shape.seq_len);
      const kernels::RowAngles angles{in<float>(cos_sin), in<std::int64_t>(places), cos_sin.size(1)};
      visit(rows.scalar_type(), [&]<class T>(ElementTag<T>) {
        for (std::int64_t batch = 0; batch * shape.seq_len < rows.size(0); ++batch) {
          f(ElementTag<T>(), batch * shape.seq_len, out<T>(q) + batch * q.stride(0),
            out<T>(k) + batch * k.stride(0), out<T>(v) + batch * v.stride(0), angles);
        }
      });
    }
    kernels::QkvShape shape;
    at::Tensor q, k, v;
  };
};

}  // namespace

std::shared_ptr<const DeviceKernels> cpu_table() {
  return std::make_shared<const CpuTable>();
}

}  // namespace echelon::ops
