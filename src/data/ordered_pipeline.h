#pragma once
#include <condition_variable>
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

/// Distributes work over threads and returns results in input order: `produce` and `consume` run on the
/// calling thread, workers in between. At most 4 inputs per worker are in flight, so memory is bounded.
/// run() throws the first exception, in input order, of any of the three.
template <class In, class Out>
class OrderedPipeline : NotCopied {
 public:
  using Produce = std::function<std::optional<In>()>;
  using Work = std::function<Out(In)>;
  using Consume = std::function<void(Out)>;

  /// `make_work` is called once for each worker thread, for state that threads do not share.
  OrderedPipeline(int threads, const std::function<Work()>& make_work)
      : most_((threads < 1 ? 1U : threads) * 4U) {
    for (int i = 0; i < (threads < 1 ? 1 : threads); ++i) {
      workers_.emplace_back([this, work = make_work()] { serve(work); });
    }
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

  void run(const Produce& produce, const Consume& consume) {
    std::deque<std::shared_ptr<Result>> under_way;
    std::exception_ptr failure;  // of produce; earlier inputs are consumed first
    for (bool more = true; more;) {
      try {
        std::optional<In> input = produce();
        more = input.has_value();
        if (more) under_way.push_back(submit(std::move(*input)));
      } catch (...) {
        more = false;
        failure = std::current_exception();
      }
      while (!under_way.empty() && (!more || under_way.size() >= most_)) {
        const std::shared_ptr<Result> first = std::move(under_way.front());
        under_way.pop_front();
        consume(take(*first));
      }
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

  std::shared_ptr<Result> submit(In input) {
    auto result = std::make_shared<Result>();
    {
      const Lock lock(mutex_);
      queue_.push_back({std::move(input), result});
    }
    changed_.notify_one();
    return result;
  }

  Out take(Result& result) {
    Lock lock(mutex_);
    done_.wait(lock, [&] { return result.value || result.failure; });
    if (result.failure) std::rethrow_exception(std::exchange(result.failure, nullptr));
    return std::move(*result.value);
  }

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

  std::size_t most_;
  Mutex mutex_;
  std::condition_variable changed_;  ///< for the workers
  std::condition_variable done_;     ///< for the caller of run()
  std::deque<Job> queue_ ECHELON_GUARDED_BY(mutex_);
  bool closed_ ECHELON_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace echelon::data
