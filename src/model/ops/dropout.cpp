#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "base/philox.h"
#include "model/ops/access.h"
#include "model/ops/device_kernels.h"
#include "model/ops/ops.h"

namespace echelon::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Elements that share one call of Philox.
constexpr std::int64_t kShared = 8;

at::Tensor masked(const at::Tensor& x, const DropoutRows& rows) {
  at::Tensor y = at::empty_like(x);
  if (x.is_cuda()) {
    device_kernels().dropout(x, y, rows);
    return y;
  }
  const std::int64_t width = x.numel() / x.size(0);
  const std::int64_t calls = (width + kShared - 1) / kShared;
  const std::int64_t* sample = in<std::int64_t>(rows.samples);
  const std::int64_t* place = in<std::int64_t>(rows.places);
  visit(x.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    at::parallel_for(0, x.size(0), 16, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t r = from; r < to; ++r) {
        kernels::kernels<T>().dropout(in<T>(x) + r * width, out<T>(y) + r * width, width, rows.key,
                                      static_cast<std::uint64_t>(place[r] * calls),
                                      static_cast<std::uint64_t>(sample[r]), rows.threshold, rows.factor);
      }
    });
  });
  return y;
}

/// Carries the rows through autograd's saved data.
struct Kept final : torch::CustomClassHolder {
  explicit Kept(DropoutRows r) : rows(std::move(r)) {}
  DropoutRows rows;
};

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<Kept>& kept) {
    ctx->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return masked(x, kept->rows);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto capsule = ctx->saved_data["kept"].toCapsule();
    return {masked(grads[0].contiguous(), static_cast<const Kept&>(*capsule).rows), {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const Batch& batch, std::string_view site) {
  if (!batch.training || probability == 0) return x;
  DropoutRows rows;
  rows.key = stream_key(batch.dropout_key, site);
  // The share that can be told apart with 16 bits, and the factor that fits it exactly.
  rows.threshold = static_cast<std::uint32_t>(std::lround(probability * 0x1p16));
  rows.factor = static_cast<float>(1.0 / (1.0 - rows.threshold * 0x1p-16));
  const bool by_token = batch.by_sample != nullptr && batch.by_sample->tokens() == x.size(0);
  const Sequences samples = by_token ? batch.by_sample : make_sequences(x.size(0), 1);
  rows.samples = samples->sequence_numbers(x.device()) + batch.first_sample;
  rows.places = samples->positions(x.device());
  return Dropout::apply(x.contiguous(), c10::make_intrusive<Kept>(std::move(rows)));
}

}  // namespace echelon::ops
