#include <type_traits>

#include "base/steady_time.h"
#include "book/books.h"
#include "book/kernel_tables.h"
#include "book/stopwatch.h"
#include "book/timing.h"

namespace echelon::book {
namespace {

using kernels::Table;
using kernels::Tables;

/// Calls `real`, then `recording` with the same arguments, which tells Books what it was.
template <class Function, class... Arguments>
auto timed(Function real, Function recording, const Arguments&... arguments) {
  const double began_s = steady_now_s();
  const auto recorded = [&] {
    const double now_s = steady_now_s();
    Books::here() = {.seconds = now_s - began_s, .before_s = stopwatch::since_previous(began_s)};
    (void)recording(arguments...);
    Books::here() = {};
    stopwatch::ended();
  };
  if constexpr (std::is_void_v<std::invoke_result_t<Function, Arguments...>>) {
    real(arguments...);
    recorded();
  } else {
    const auto result = real(arguments...);
    recorded();
    return result;
  }
}

/// Member `M` of a Table or of Tables, timed.
template <auto M>
struct Timed;
template <class T, class R, class... A, R (*Table<T>::*M)(A...)>
struct Timed<M> {
  static R call(A... arguments) {
    return timed(kernels::table_of<T>(kernels::processor_tables()).*M,
                 kernels::table_of<T>(recording_kernels()).*M, arguments...);
  }
};
template <class R, class... A, R (*Tables::*M)(A...)>
struct Timed<M> {
  static R call(A... arguments) {
    return timed(kernels::processor_tables().*M, recording_kernels().*M, arguments...);
  }
};

#pragma GCC diagnostic push
// A row left out would be a null pointer.
#pragma GCC diagnostic error "-Wmissing-field-initializers"

template <class T>
constexpr Table<T> table() {
  using K = Table<T>;
  return {.rms_norm = Timed<&K::rms_norm>::call,
          .rms_norm_backward = Timed<&K::rms_norm_backward>::call,
          .layer_norm = Timed<&K::layer_norm>::call,
          .layer_norm_backward = Timed<&K::layer_norm_backward>::call,
          .bias_gelu = Timed<&K::bias_gelu>::call,
          .bias_gelu_backward = Timed<&K::bias_gelu_backward>::call,
          .swiglu = Timed<&K::swiglu>::call,
          .swiglu_backward = Timed<&K::swiglu_backward>::call,
          .geglu = Timed<&K::geglu>::call,
          .geglu_backward = Timed<&K::geglu_backward>::call,
          .relu_backward = Timed<&K::relu_backward>::call,
          .cross_entropy = Timed<&K::cross_entropy>::call,
          .attention_softmax = Timed<&K::attention_softmax>::call,
          .attention_probabilities = Timed<&K::attention_probabilities>::call,
          .attention_softmax_backward = Timed<&K::attention_softmax_backward>::call,
          .row_dots = Timed<&K::row_dots>::call,
          .rope_split = Timed<&K::rope_split>::call,
          .rope_merge = Timed<&K::rope_merge>::call,
          .sum_rows = Timed<&K::sum_rows>::call,
          .dropout = Timed<&K::dropout>::call,
          .to_float = Timed<&K::to_float>::call,
          .from_float = Timed<&K::from_float>::call,
          .product = Timed<&K::product>::call};
}

constexpr Tables kTables{.f32 = table<float>(),
                         .bf16 = table<kernels::Bf16>(),
                         .fp16 = table<kernels::Fp16>(),
                         .sum_of_squares = Timed<&Tables::sum_of_squares>::call,
                         .initial_values = Timed<&Tables::initial_values>::call,
                         .anyprecision_adamw = Timed<&Tables::anyprecision_adamw>::call,
                         .for_each_task = nullptr};

#pragma GCC diagnostic pop

}  // namespace

const kernels::Tables& timed_kernels() {
  return kTables;
}

}  // namespace echelon::book
