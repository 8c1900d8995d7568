#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/not_copied.h"
#include "data/loader.h"

namespace echelon {

/// The samples that a rank reads: batch k holds samples [first + k * stride, first + k * stride + samples).
struct BatchPlan {
  std::int64_t first = 0;
  std::int64_t samples = 1;
  std::int64_t stride = 1;  ///< samples of all ranks together
};

/// A rank's batches in order, read and decoded ahead by internal threads. Every batch is a function of its
/// number, so neither the number of threads nor their speed changes the output. At most `ahead` batches are
/// kept, or one of each thread where there are more threads.
class BatchStream : NotCopied {
 public:
  /// `loader` outlives this. workers 0: next() reads itself. ahead >= 1.
  BatchStream(const Loader& loader, const BatchPlan& plan, std::int64_t workers, std::int64_t ahead);
  ~BatchStream();

  /// The next batch, or the error of reading it. One thread.
  [[nodiscard]] SampleBatch next();

  /// Seconds that next() has waited so far: the time training lost to data.
  [[nodiscard]] double waited_s() const { return waited_s_; }

 private:
  struct Place {
    std::optional<SampleBatch> batch;
    std::exception_ptr failure;
    [[nodiscard]] bool filled() const { return batch.has_value() || failure != nullptr; }
  };
  void serve();
  [[nodiscard]] SampleBatch read(std::int64_t number) const;
  [[nodiscard]] SampleBatch take();

  const Loader& loader_;
  BatchPlan plan_;
  double waited_s_ = 0;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Place> places_ ECHELON_GUARDED_BY(mutex_);  ///< batch k in place k % size
  std::int64_t taken_ ECHELON_GUARDED_BY(mutex_) = 0;     ///< batches given out
  std::int64_t begun_ ECHELON_GUARDED_BY(mutex_) = 0;     ///< batches that a worker reads or has read
  bool closed_ ECHELON_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace echelon
