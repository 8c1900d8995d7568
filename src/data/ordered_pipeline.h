#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/not_copied.h"

namespace echelon::data {

/// Distributes work over threads and returns results in input order. All but the work runs on the calling
/// thread.
template <class In, class Out>
class OrderedPipeline : NotCopied {
 public:
  using Produce = std::function<std::optional<In>()>;
  using Work = std::function<Out(In)>;
  using Consume = std::function<void(Out)>;

  /// `make_work` is called once for each worker thread, for state that threads do not share.
  OrderedPipeline(std::int64_t threads, const std::function<Work()>& make_work) {
    for (std::int64_t i = 0; i < std::max<std::int64_t>(threads, 1); ++i)
      workers_.emplace_back([this, work = make_work()] { serve(work); });
  }

  ~OrderedPipeline() {
    {
      const Lock lock(mutex_);
      queue_.clear();
      closed_ = true;
    }
    changed_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void submit(In input) {
    auto result = std::make_shared<Result>();
    {
      const Lock lock(mutex_);
      queue_.push_back({std::move(input), result});
    }
    changed_.notify_one();
    // Last: take() would wait forever for a result that no worker makes.
    under_way_.push_back(std::move(result));
  }

  /// Inputs that were submitted, and whose results were not taken.
  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }

  /// Waits for the result of the first input under way; throws what its work threw.
  Out take() {
    const std::shared_ptr<Result> result = std::move(under_way_.front());
    under_way_.pop_front();
    Lock lock(mutex_);
    done_.wait(lock, [&] { return result->value || result->failure; });
    if (result->failure) std::rethrow_exception(std::exchange(result->failure, nullptr));
    return std::move(*result->value);
  }

  /// Submits what `produce` gives until it gives nothing, and hands the results to `consume`. At most 4
  /// inputs per worker are under way, so memory is bounded. Throws the first exception, in input order, of
  /// any of the three.
  void run(const Produce& produce, const Consume& consume) {
    std::exception_ptr failure;  // of produce; earlier inputs are consumed first
    for (bool more = true; more;) {
      try {
        std::optional<In> input = produce();
        more = input.has_value();
        if (more) submit(std::move(*input));
      } catch (...) {
        more = false;
        failure = std::current_exception();
      }
      while (under_way() > 0 && (!more || under_way() >= 4 * workers_.size())) consume(take());
    }
    if (failure) std::rethrow_exception(failure);
  }

 private:
  /// A result, guarded by the mutex. A std::future would not do: its worker keeps the exception until the
  /// state is gone, and may free it while the caller's handler still reads it.
  struct Result {
    std::optional<Out> value;
    std::exception_ptr failure;
  };
  struct Job {
    In input;
    std::shared_ptr<Result> result;
  };

  void serve(const Work& work) {
    for (;;) {
      Lock lock(mutex_);
      changed_.wait(lock, [this]() ECHELON_REQUIRES(mutex_) { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Job job = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      std::optional<Out> value;
      std::exception_ptr failure;
      try {
        value.emplace(work(std::move(job.input)));
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      job.result->value = std::move(value);
      job.result->failure = std::move(failure);
      lock.unlock();
      done_.notify_one();
    }
  }

  std::deque<std::shared_ptr<Result>> under_way_;
  Mutex mutex_;
  std::condition_variable changed_;  ///< for the workers
  std::condition_variable done_;     ///< for the caller of take()
  std::deque<Job> queue_ ECHELON_GUARDED_BY(mutex_);
  bool closed_ ECHELON_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace echelon::data
