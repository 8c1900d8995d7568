#include "book/kernel_tables.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "book/books.h"

namespace echelon::book {
namespace {

using kernels::Bf16;
using kernels::NormRows;
using kernels::QkvShape;
using kernels::RowAngles;
using kernels::ScoreRows;

template <class T>
constexpr DType kType = std::is_same_v<T, float>  ? DType::kF32
                        : std::is_same_v<T, Bf16> ? DType::kBF16
                                                  : DType::kF16;

/// `elements` of T, read and written together.
template <class T>
void pass(const char* name, std::int64_t elements) {
  books().work(name, forecast::Cost::kMemory, kType<T>, 0, static_cast<double>(elements) * sizeof(T));
}

std::int64_t row_of(const QkvShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}

template <class T>
void record_product(const kernels::ProductKernel<T>&, const kernels::Product<T>& p, std::byte*) {
  const auto m = static_cast<double>(p.m);
  const auto n = static_cast<double>(p.n);
  const auto k = static_cast<double>(p.k);
  books().work("mm", forecast::Cost::kProduct, kType<T>, 2 * m * n * k,
               static_cast<double>(sizeof(T)) * (m * k + k * n + m * n * (p.accumulate ? 2 : 1)));
}

#pragma GCC diagnostic push
// A row left out would be a null pointer.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

template <class T>
constexpr kernels::Table<T> table() {
  using I = std::int64_t;
  return {
      .rms_norm = [](const T*, const T* added, T*, const T*, T*, float*, const NormRows& x, float,
                     NormRounding) { pass<T>("rms_norm", (added == nullptr ? 2 : 4) * x.numel()); },
      .rms_norm_backward =
          [](const T*, const T* dsum, const T*, const T*, const float*, T*, float*, const NormRows& x,
             NormRounding) { pass<T>("rms_norm_backward", (dsum == nullptr ? 3 : 4) * x.numel()); },
      .layer_norm = [](const T*, const T*, const T*, T*, float*, I rows, I n,
                       float) { pass<T>("layer_norm", 2 * rows * n); },
      .layer_norm_backward = [](const T*, const T*, const T*, const float*, T*, float*, float*, I rows,
                                I n) { pass<T>("layer_norm_backward", 3 * rows * n); },
      .bias_gelu = [](const T*, const T*, T*, I rows, I n) { pass<T>("bias_gelu", 2 * rows * n); },
      .bias_gelu_backward = [](const T*, const T*, const T*, T*, float*, I rows,
                               I n) { pass<T>("bias_gelu_backward", 3 * rows * n); },
      .swiglu = [](const T*, T*, I rows, I n) { pass<T>("swiglu", 3 * rows * n); },
      .swiglu_backward = [](const T*, const T*, T*, I rows,
                            I n) { pass<T>("swiglu_backward", 5 * rows * n); },
      .geglu = [](const T*, T*, I rows, I n) { pass<T>("geglu", 3 * rows * n); },
      .geglu_backward = [](const T*, const T*, T*, I rows, I n) { pass<T>("geglu_backward", 5 * rows * n); },
      .relu_backward = [](const T*, const T*, T*, I n, float) { pass<T>("relu_backward", 3 * n); },
      .cross_entropy =
          [](T*, I rows, I n, const I*, const double* scale, float* losses) {
            scale != nullptr ? pass<T>("softmax_cross_entropy", 2 * rows * n)
                             : pass<T>("cross_entropy", rows * n);
            std::fill_n(losses, rows, 1.0F);
          },
      .attention_softmax = [](T*, float*,
                              const ScoreRows& s) { pass<T>("attention_softmax", 2 * s.rows * s.columns); },
      .attention_probabilities =
          [](T*, const float*, const ScoreRows& s) {
            pass<T>("attention_probabilities", 2 * s.rows * s.columns);
          },
      .attention_softmax_backward =
          [](const T*, T*, const float*, const ScoreRows& s, float*) {
            pass<T>("attention_softmax_backward", 3 * s.rows * s.columns);
          },
      .row_dots = [](const T*, const T*, float*, I rows, I n) { pass<T>("row_dots", 2 * rows * n); },
      .rope_split = [](const T*, T*, T*, T*, const RowAngles&, I, I count,
                       QkvShape shape) { pass<T>("rope_split", 2 * count * row_of(shape)); },
      .rope_merge = [](T*, const T*, const T*, const T*, const RowAngles&, I, I count,
                       QkvShape shape) { pass<T>("rope_merge", 2 * count * row_of(shape)); },
      .sum_rows = [](const T*, const I*, I count, T*, I n, bool) { pass<T>("sum_rows", (count + 1) * n); },
      .dropout = [](const T*, T*, I rows, I n, const kernels::DropoutValues&,
                    bool) { pass<T>("dropout", 2 * rows * n); },
      .to_float = [](const T*, float*, I n) { pass<float>("to_float", n + n * I{sizeof(T)} / 4); },
      .from_float = [](const float*, T*, I n) { pass<float>("from_float", n + n * I{sizeof(T)} / 4); },
      .product = record_product<T>,
  };
}

double sum_of_squares(const float*, std::int64_t n) {
  pass<float>("sum_of_squares", n);
  return 1;
}

void initial_values(const kernels::InitialValues&, std::uint64_t, float*, std::int64_t n) {
  pass<float>("initial_values", n);
}

double bytes_of(const kernels::LowPrecisionArray& array) {
  return array.data == nullptr ? 0 : (array.bf16 ? 2 : 4);
}

void anyprecision_adamw(const kernels::AnyPrecisionNumbers&, const kernels::AnyPrecisionArrays& arrays,
                        std::int64_t begin, std::int64_t end) {
  double bytes = sizeof(float);  // the gradient is only read
  for (const auto& array : {arrays.weights, arrays.exp_avg, arrays.exp_avg_sq, arrays.compensation})
    bytes += 2 * bytes_of(array);
  books().work("anyprecision_adamw", forecast::Cost::kMemory, DType::kF32, 0,
               bytes * static_cast<double>(end - begin));
}

/// One of equal tasks stands for all.
void for_each_task(std::int64_t count, bool equal,
                   const std::function<void(std::int64_t, std::int64_t)>& run) {
  books().begin_tasks(equal ? count : 1);
  at::parallel_for(0, equal ? std::min<std::int64_t>(count, 1) : count, 1, run);
  books().end_tasks();
}

constexpr kernels::Tables kTables{.f32 = table<float>(),
                                  .bf16 = table<Bf16>(),
                                  .fp16 = table<kernels::Fp16>(),
                                  .sum_of_squares = sum_of_squares,
                                  .initial_values = initial_values,
                                  .anyprecision_adamw = anyprecision_adamw,
                                  .for_each_task = for_each_task};

#pragma GCC diagnostic pop

}  // namespace

const kernels::Tables& recording_kernels() {
  return kTables;
}

}  // namespace echelon::book
