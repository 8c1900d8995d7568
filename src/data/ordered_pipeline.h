#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace echelon::data {

/// Distributes work over threads and returns results in input order: `produce` and `consume` run on the
/// calling thread, workers in between. At most 4 inputs per worker are in flight, so memory is bounded.
/// run() throws the first exception, in input order, of any of the three.
template <class In, class Out>
class OrderedPipeline {
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
  OrderedPipeline(const OrderedPipeline&) = delete;
  OrderedPipeline& operator=(const OrderedPipeline&) = delete;

  ~OrderedPipeline() {
    {
      const std::lock_guard lock(mutex_);
      queue_.clear();
      closed_ = true;
    }
    changed_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void run(const Produce& produce, const Consume& consume) {
    std::deque<std::future<Out>> under_way;
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
        consume(under_way.front().get());
        under_way.pop_front();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

 private:
  struct Job {
    In input;
    std::promise<Out> result;
  };

  std::future<Out> submit(In input) {
    Job job{std::move(input), {}};
    auto result = job.result.get_future();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(job));
    }
    changed_.notify_one();
    return result;
  }

  void serve(const Work& work) {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Job job = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        job.result.set_value(work(std::move(job.input)));
      } catch (...) {
        job.result.set_exception(std::current_exception());
      }
    }
  }

  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool closed_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace echelon::data
