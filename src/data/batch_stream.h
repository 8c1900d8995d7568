#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/not_copied.h"
#include "data/loader.h"
#include "data/ordered_pipeline.h"

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

  /// The next batch, or the error of reading it. One thread.
  [[nodiscard]] SampleBatch next();

  /// Seconds that next() has waited so far: the time training lost to data.
  [[nodiscard]] double waited_s() const { return waited_s_; }

 private:
  [[nodiscard]] SampleBatch read(std::int64_t number) const;
  void fill();

  const Loader& loader_;
  BatchPlan plan_;
  std::size_t ahead_;
  std::int64_t begun_ = 0;  ///< batches that are read, or soon will be
  double waited_s_ = 0;
  std::optional<data::OrderedPipeline<std::int64_t, SampleBatch>> pipeline_;
};

}  // namespace echelon
