#include <utility>
#include <vector>

#include "base/steady_time.h"
#include "book/books.h"
#include "book/kernel_tables.h"
#include "book/stopwatch.h"
#include "book/timing.h"

namespace echelon::book {
namespace {

using kernels::Bf16;
using kernels::Fp16;
using kernels::Table;
using kernels::Tables;

template <class T>
const Table<T>& table_of(const Tables& tables) {
  if constexpr (std::is_same_v<T, float>) return tables.f32;
  if constexpr (std::is_same_v<T, Bf16>) return tables.bf16;
  if constexpr (std::is_same_v<T, Fp16>) return tables.fp16;
}

/// Rows that are timed together.
struct Rows {
  bool inside = false;
  double before_s = 0;  ///< since the previous work
  double began_s = 0;
  std::vector<std::uint32_t> works{};  ///< of the first row
};
thread_local Rows rows;

class TimingObserver final : public kernels::Observer {
 public:
  std::int64_t begin_tasks(std::int64_t count, bool) override { return count; }
  void end_tasks() override {}
  std::int64_t begin_rows(std::int64_t count) override {
    const double now_s = steady_now_s();
    rows.inside = true;
    rows.works.clear();
    rows.before_s = stopwatch::since_previous(now_s);
    rows.began_s = now_s;
    Books::here().rows = count;
    Books::here().collected = &rows.works;
    return count;
  }
  void first_row_done() override { Books::here() = {}; }
  void end_rows() override {
    books().took(rows.works, rows.before_s, steady_now_s() - rows.began_s);
    rows.inside = false;
    stopwatch::ended();
  }
  void product(const kernels::ProductShape& shape, const std::function<void()>& run) override;
  bool leaves_out(const char*, double) override { return false; }
};

/// Tells Books what the kernel that began at `began_s` and has just ended was, by calling `recording`.
template <class F>
void recorded(double began_s, const F& recording) {
  if (rows.inside) {
    if (Books::here().collected != nullptr) recording();
    return;
  }
  const double now_s = steady_now_s();
  Books::here() = {.seconds = now_s - began_s, .before_s = stopwatch::since_previous(began_s)};
  recording();
  Books::here() = {};
  stopwatch::ended();
}

/// Calls `real`, then `recording` with the same arguments, which tells Books what it was.
template <class Function, class Recording, class... Arguments>
auto timed(Function real, Recording recording, Arguments... arguments) {
  const double began_s = rows.inside ? 0 : steady_now_s();
  if constexpr (std::is_void_v<std::invoke_result_t<Function, Arguments...>>) {
    real(arguments...);
    recorded(began_s, [&] { recording(arguments...); });
  } else {
    const auto result = real(arguments...);
    recorded(began_s, [&] { (void)recording(arguments...); });
    return result;
  }
}

void TimingObserver::product(const kernels::ProductShape& shape, const std::function<void()>& run) {
  timed([&] { run(); }, [&] { recording_kernels().observer->product(shape, run); });
}

/// Member `M` of a Table, timed.
template <auto M>
struct Timed;
template <class T, class R, class... A, R (*Table<T>::*M)(A...)>
struct Timed<M> {
  static R call(A... arguments) {
    return timed(table_of<T>(kernels::processor_tables()).*M, table_of<T>(*recording_kernels().tables).*M,
                 arguments...);
  }
};

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
          .relu = Timed<&K::relu>::call,
          .relu_backward = Timed<&K::relu_backward>::call,
          .softmax_cross_entropy = Timed<&K::softmax_cross_entropy>::call,
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
          .from_float = Timed<&K::from_float>::call};
}

double sum_of_squares(const float* values, std::int64_t n) {
  return timed(kernels::processor_tables().sum_of_squares, recording_kernels().tables->sum_of_squares, values,
               n);
}

constexpr Tables kTables{
    .f32 = table<float>(), .bf16 = table<Bf16>(), .fp16 = table<Fp16>(), .sum_of_squares = sum_of_squares};

}  // namespace

kernels::Replacement timed_kernels() {
  static TimingObserver observer;
  return {.tables = &kTables, .observer = &observer};
}

}  // namespace echelon::book
