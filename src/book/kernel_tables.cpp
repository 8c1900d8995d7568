#include "book/kernel_tables.h"

#include <type_traits>

#include "book/books.h"

namespace echelon::book {
namespace {

using kernels::Bf16;
using kernels::Fp16;
using kernels::QkvShape;
using kernels::ScoreRows;
using kernels::Table;

template <class T>
constexpr DType kType = std::is_same_v<T, float>  ? DType::kF32
                        : std::is_same_v<T, Bf16> ? DType::kBF16
                                                  : DType::kF16;

/// `elements` of T, read and written together.
template <class T>
void pass(const char* name, std::int64_t elements) {
  books().pass(name, kType<T>, elements);
}

std::int64_t row_of(const QkvShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
}

template <class T>
constexpr Table<T> table() {
  using I = std::int64_t;
  return {
      .rms_norm = [](const T*, const T*, T*, float*, I rows, I n, float,
                     NormRounding) { pass<T>("rms_norm", 2 * rows * n); },
      .rms_norm_backward = [](const T*, const T*, const T*, const float*, T*, float*, I rows, I n,
                              NormRounding) { pass<T>("rms_norm_backward", 3 * rows * n); },
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
      .relu = [](T*, I n) { pass<T>("relu", 2 * n); },
      .relu_backward = [](const T*, const T*, T*, I n, float) { pass<T>("relu_backward", 3 * n); },
      .softmax_cross_entropy =
          [](T*, I n, I, float) {
            pass<T>("softmax_cross_entropy", 2 * n);
            return 1.0F;
          },
      .cross_entropy =
          [](const T*, I n, I) {
            pass<T>("cross_entropy", n);
            return 1.0F;
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
      .rope_split = [](const T*, T*, T*, T*, const float*, I,
                       QkvShape shape) { pass<T>("rope_split", 2 * row_of(shape)); },
      .rope_merge = [](T*, const T*, const T*, const T*, const float*, I,
                       QkvShape shape) { pass<T>("rope_merge", 2 * row_of(shape)); },
      .sum_rows = [](const T*, const I*, I count, T*, I n, bool) { pass<T>("sum_rows", (count + 1) * n); },
      .dropout = [](const T*, T*, I n, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t,
                    float) { pass<T>("dropout", 2 * n); },
      .to_float = [](const T*, float*, I n) { pass<float>("to_float", n + n * I{sizeof(T)} / 4); },
      .from_float = [](const float*, T*, I n) { pass<float>("from_float", n + n * I{sizeof(T)} / 4); },
  };
}

double sum_of_squares(const float*, std::int64_t n) {
  pass<float>("sum_of_squares", n);
  return 1;
}

constexpr kernels::Tables kTables{
    .f32 = table<float>(), .bf16 = table<Bf16>(), .fp16 = table<Fp16>(), .sum_of_squares = sum_of_squares};

class RecordingObserver final : public kernels::Observer {
 public:
  std::int64_t begin_tasks(std::int64_t count, bool equal) override {
    books().begin_tasks(equal ? count : 1);
    return equal ? 1 : count;
  }
  void end_tasks() override { books().end_tasks(); }
  std::int64_t begin_rows(std::int64_t count) override {
    Books::here().rows = count;
    return 1;
  }
  void first_row_done() override {}
  void end_rows() override { Books::here().rows = 1; }
  void product(const kernels::ProductShape& s, const std::function<void()>& /*run*/) override {
    const auto m = static_cast<double>(s.m);
    const auto n = static_cast<double>(s.n);
    const auto k = static_cast<double>(s.k);
    books().work("mm", forecast::Cost::kProduct, s.type, 2 * m * n * k,
                 static_cast<double>(size_of(s.type)) * (m * k + k * n + m * n * (s.accumulated ? 2 : 1)));
  }
  bool leaves_out(const char* what, double bytes) override {
    books().work(what, forecast::Cost::kMemory, DType::kF32, 0, bytes);
    return true;
  }
};

}  // namespace

kernels::Replacement recording_kernels() {
  static RecordingObserver observer;
  return {.tables = &kTables, .observer = &observer};
}

}  // namespace echelon::book
