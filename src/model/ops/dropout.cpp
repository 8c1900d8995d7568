#include <ATen/ATen.h>

#include <cmath>

#include "base/philox.h"
#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

/// Rows that a thread takes at a time.
constexpr std::int64_t kGrain = 16;

/// y = mask(x), and with `relu` also max(0, .).
at::Tensor masked(const at::Tensor& x, const DropoutRows& rows, bool relu) {
  at::Tensor y = at::empty_like(x);
  if (const DeviceKernels* device = device_kernels(x)) {
    device->dropout(x, y, rows);
    return y;
  }
  const std::int64_t width = x.numel() / x.size(0);
  for_all_rows(x, kGrain, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t count) {
    const kernels::DropoutValues values{rows.key, rows.threshold, rows.factor,
                                        in<std::int64_t>(rows.samples) + first,
                                        in<std::int64_t>(rows.places) + first};
    kernels::kernels<T>().dropout(in<T>(x) + first * width, out<T>(y) + first * width, count, width, values,
                                  relu);
  });
  return y;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const DropoutRows& rows) {
    keep(ctx, "rows", rows);
    return masked(x, rows, false);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {masked(grads[0].contiguous(), kept<DropoutRows>(ctx, "rows"), false), {}};
  }
};

/// A zero in the result was negative or dropped; both stop the gradient. So the result is all that backward
/// needs.
struct ReluDropout : torch::autograd::Function<ReluDropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const DropoutRows* rows) {
    at::Tensor y = rows != nullptr ? masked(x, *rows, true) : at::relu(x);
    ctx->save_for_backward({y});
    ctx->saved_data["factor"] = rows != nullptr ? static_cast<double>(rows->factor) : 1.0;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const at::Tensor y = ctx->get_saved_variables()[0];
    const at::Tensor dy = grads[0].contiguous();
    const auto factor = static_cast<float>(ctx->saved_data["factor"].toDouble());
    at::Tensor dx = at::empty_like(y);
    const std::int64_t width = y.numel() / y.size(0);
    for_all_rows(y, kGrain, [&]<class T>(ElementTag<T>, std::int64_t first, std::int64_t count) {
      const std::int64_t at = first * width;
      kernels::kernels<T>().relu_backward(in<T>(y) + at, in<T>(dy) + at, out<T>(dx) + at, count * width,
                                          factor);
    });
    return {dx, {}};
  }
};

DropoutRows rows_of(const at::Tensor& x, double probability, const Batch& batch, std::string_view site) {
  DropoutRows rows;
  rows.key = stream_key(batch.dropout_key, site);
  // The probability rounded to 16 bits, and the factor that matches the rounded one exactly.
  rows.threshold = static_cast<std::uint32_t>(std::lround(probability * 0x1p16));
  rows.factor = static_cast<float>(1.0 / (1.0 - rows.threshold * 0x1p-16));
  const bool by_token = batch.by_sample != nullptr && batch.by_sample->tokens() == x.size(0);
  const Sequences samples = by_token ? batch.by_sample : make_sequences(x.size(0), 1);
  // The global sample number and the position select the random words: the mask depends neither on the rank
  // nor on the batch around the sample, and recomputation gets the same one.
  rows.samples = samples->sequence_numbers(x.device()) + batch.first_sample;
  rows.places = samples->positions(x.device());
  return rows;
}

bool drops(double probability, const Batch& batch) {
  return batch.training && probability > 0;
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const Batch& batch, std::string_view site) {
  if (!drops(probability, batch)) return x;
  return Dropout::apply(x.contiguous(), rows_of(x, probability, batch, site));
}

at::Tensor relu_dropout(const at::Tensor& x, double probability, const Batch& batch, std::string_view site) {
  if (device_kernels(x) != nullptr) return dropout(at::relu(x), probability, batch, site);
  if (!drops(probability, batch)) return ReluDropout::apply(x.contiguous(), nullptr);
  const DropoutRows rows = rows_of(x, probability, batch, site);
  return ReluDropout::apply(x.contiguous(), &rows);
}

}  // namespace echelon::ops
