#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "model/kernels/kernels.h"
#include "model/parameter.h"

/// Shared by the operations: raw pointers for the kernels, what backward needs, and how a weight gradient
/// gets into its sink.
namespace echelon::ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
struct Kept final : torch::CustomClassHolder {
  explicit Kept(T v) : value(std::move(v)) {}
  T value;
};
/// Keeps any value for backward.
template <class T>
void keep(AutogradContext* ctx, const char* name, T value) {
  ctx->saved_data[name] = c10::IValue::make_capsule(c10::make_intrusive<Kept<T>>(std::move(value)));
}
/// What keep() kept under this name. It lives as long as the context.
template <class T>
const T& kept(AutogradContext* ctx, const char* name) {
  return static_cast<const Kept<T>&>(*ctx->saved_data.at(name).toCapsule()).value;
}

template <class T>
struct ElementTag {
  using type = T;
};

/// Calls f(ElementTag<T>) with the T that kernels know `type` by.
template <class F>
decltype(auto) visit(at::ScalarType type, F&& f) {
  if (type == at::kFloat) return std::forward<F>(f)(ElementTag<float>{});
  if (type == at::kBFloat16) return std::forward<F>(f)(ElementTag<kernels::Bf16>{});
  if (type == at::kHalf) return std::forward<F>(f)(ElementTag<kernels::Fp16>{});
  throw Error::internal("computing in ", c10::toString(type), " is not supported; use bf16, fp16 or fp32");
}

template <class T>
const T* in(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}
template <class T>
T* out(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

/// From element `first` on; null for an undefined tensor.
template <class T>
const T* in_or_null(const at::Tensor& tensor, std::int64_t first = 0) {
  return tensor.defined() ? in<T>(tensor) + first : nullptr;
}
template <class T>
T* out_or_null(const at::Tensor& tensor, std::int64_t first = 0) {
  return tensor.defined() ? out<T>(tensor) + first : nullptr;
}

/// Divides tasks [0, count) among threads, which call f(from, to); see Tables::for_each_task.
template <class F>
void for_each_task(std::int64_t count, bool equal, const F& f) {
  if (const auto divide = kernels::tables().for_each_task) return divide(count, equal, f);
  at::parallel_for(0, count, 1, f);
}

/// Calls f(ElementTag of x, first row, rows) for all rows of x, in parallel. `grain`: rows of a task, at
/// least.
template <class F>
void for_all_rows(const at::Tensor& x, std::int64_t grain, const F& f) {
  visit(x.scalar_type(), [&](auto tag) {
    at::parallel_for(0, x.size(0), grain,
                     [&](std::int64_t from, std::int64_t to) { f(tag, from, to - from); });
  });
}

/// A sum over rows consists of this fixed number of partial sums, added in order: the same bits for any
/// number of threads.
constexpr std::int64_t kPartials = 8;

/// Calls f(ElementTag of x, partial, first row, rows) for each partial sum over the rows of x, in parallel.
template <class F>
void for_each_partial(const at::Tensor& x, const F& f) {
  const std::int64_t each = (x.size(0) + kPartials - 1) / kPartials;
  visit(x.scalar_type(), [&](auto tag) {
    at::parallel_for(0, kPartials, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t p = from; p < to; ++p) {
        const std::int64_t first = std::min(x.size(0), p * each);
        f(tag, p, first, std::min(x.size(0), first + each) - first);
      }
    });
  });
}

/// The partial sums of a vector's gradient.
struct PartialSums {
  /// `like`: a tensor on the same device.
  PartialSums(const Parameter& vector, const at::Tensor& like);
  /// fp32 [n]; null: the vector requires no gradient.
  [[nodiscard]] float* row(std::int64_t partial) const;
  /// [n]; undefined if the vector requires no gradient.
  [[nodiscard]] at::Tensor total() const;

 private:
  at::Tensor rows_;  ///< fp32 [kPartials, n]; undefined if the vector requires no gradient
};

/// write(into, add) makes the gradient of the parameter: in `into`, or with `add` added to it. With a sink
/// `into` is the unit's reduction buffer; without one it is a new tensor, which is returned for autograd to
/// keep. Does nothing if the parameter's value requires no gradient.
[[nodiscard]] at::Tensor deposit_by(Parameter& parameter,
                                    const std::function<void(const at::Tensor& into, bool add)>& write);

/// gradient (+)= a * b, by the rules of deposit_by().
[[nodiscard]] at::Tensor deposit_product(Parameter& parameter, const at::Tensor& a, const at::Tensor& b);

/// gradient (+)= `whole`, by the rules of deposit_by().
[[nodiscard]] at::Tensor deposit(Parameter& parameter, const at::Tensor& whole);

}  // namespace echelon::ops
