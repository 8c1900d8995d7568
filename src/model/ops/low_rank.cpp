#include <ATen/ATen.h>

#include "model/ops/access.h"
#include "model/ops/ops.h"
#include "model/ops/products/product.h"

namespace echelon::ops {
namespace {

/// Calls f(columns of y, columns of h, rows of b, number of the part) for each part.
template <class F>
void for_each_part(const std::vector<Columns>& parts, const at::Tensor& y, const at::Tensor& h,
                   const at::Tensor& b, const F& f) {
  const std::int64_t rank = b.size(1);
  std::int64_t row = 0;
  std::int64_t column = 0;
  for (const Columns& part : parts) {
    f(y.narrow(1, part.first, part.count), h.narrow(1, column, rank), b.narrow(0, row, part.count));
    row += part.count;
    column += rank;
  }
}

struct AddLowRank : torch::autograd::Function<AddLowRank> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& y, const at::Tensor& h,
                            const at::Tensor& value, Parameter* b, const std::vector<Columns>& parts) {
    for_each_part(parts, y, h, value, [](const at::Tensor& out, const at::Tensor& low, const at::Tensor& up) {
      product_into(out, low, up.t(), true);
    });
    ctx->mark_dirty({y});
    ctx->save_for_backward({h});
    ctx->saved_data["b"] = reinterpret_cast<std::int64_t>(b);
    keep(ctx, "parts", parts);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& b = *reinterpret_cast<Parameter*>(ctx->saved_data["b"].toInt());
    const auto& parts = kept<std::vector<Columns>>(ctx, "parts");
    const at::Tensor h = ctx->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor dh;
    if (ctx->needs_input_grad(1)) {
      dh = at::empty_like(h);
      for_each_part(parts, dy, dh, b.value.detach(),
                    [](const at::Tensor& out, const at::Tensor& low, const at::Tensor& up) {
                      product_into(low, out, up, false);
                    });
    }
    return {dy, dh, weight_gradient(b, parts, dy, h), {}, {}};
  }

  /// The gradient of the rows of every part.
  static at::Tensor weight_gradient(Parameter& b, const std::vector<Columns>& parts, const at::Tensor& dy,
                                    const at::Tensor& h) {
    return deposit_by(b, [&](const at::Tensor& into, bool add) {
      for_each_part(parts, dy, h, into,
                    [&](const at::Tensor& out, const at::Tensor& low, const at::Tensor& rows) {
                      product_into(rows, out.t(), low, add);
                    });
    });
  }
};

}  // namespace

at::Tensor add_low_rank(const at::Tensor& y, const at::Tensor& h, Parameter& b,
                        const std::vector<Columns>& parts) {
  return AddLowRank::apply(y, h, b.value, &b, parts);
}

}  // namespace echelon::ops
