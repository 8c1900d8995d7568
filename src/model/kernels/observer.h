#pragma once
#include <cstdint>
#include <functional>

#include "base/dtype.h"

namespace echelon::kernels {

/// [m, k] * [k, n] -> [m, n], the last `accumulated` or overwritten.
struct ProductShape {
  DType type;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool accumulated;
};

/// Observes the surroundings of kernel calls while kernels only record or are timed (src/book). Called from
/// any thread.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Tasks begin. Returns how many have to run.
  [[nodiscard]] virtual std::int64_t begin_tasks(std::int64_t count, bool equal) = 0;
  virtual void end_tasks() = 0;
  /// Rows of for_equal_rows() begin. Returns how many have to run.
  [[nodiscard]] virtual std::int64_t begin_rows(std::int64_t count) = 0;
  virtual void first_row_done() = 0;
  virtual void end_rows() = 0;
  /// `run` computes a product that no operation of PyTorch stands for as a whole. Runs it or leaves it out.
  virtual void product(const ProductShape& shape, const std::function<void()>& run) = 0;
  /// Returns whether the caller must leave out `what`, which reads and writes `bytes` without a kernel.
  [[nodiscard]] virtual bool leaves_out(const char* what, double bytes) = 0;
};

/// The observer of this process; null: none.
[[nodiscard]] Observer* observer();

/// For code that writes large tensors without a kernel of the table. While kernels only record their calls,
/// records `what`, which reads and writes `bytes`, and returns true; the caller then leaves it out.
[[nodiscard]] inline bool only_recorded(const char* what, double bytes) {
  return observer() != nullptr && observer()->leaves_out(what, bytes);
}

/// The lifetime of `count` tasks that are divided among threads. If they are `equal` (the same kernels on
/// tensors of the same shapes) and kernels only record, one task stands for all.
class Tasks {
 public:
  Tasks(std::int64_t count, bool equal) : observer_(observer()), to_run_(count) {
    if (observer_ != nullptr) to_run_ = observer_->begin_tasks(count, equal);
  }
  ~Tasks() {
    if (observer_ != nullptr) observer_->end_tasks();
  }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  [[nodiscard]] std::int64_t to_run() const { return to_run_; }

 private:
  Observer* observer_;
  std::int64_t to_run_;
};

/// Calls f(row) on this thread for rows [from, to), with the same kernels for each row. While kernels only
/// record, the first row stands for all; while they are timed, all rows are timed at once.
template <class F>
void for_equal_rows(std::int64_t from, std::int64_t to, const F& f) {
  Observer* const observed_by = observer();
  if (observed_by == nullptr) {
    for (std::int64_t row = from; row < to; ++row) f(row);
    return;
  }
  if (from >= to) return;
  const std::int64_t end = from + observed_by->begin_rows(to - from);
  f(from);
  observed_by->first_row_done();
  for (std::int64_t row = from + 1; row < end; ++row) f(row);
  observed_by->end_rows();
}

}  // namespace echelon::kernels
