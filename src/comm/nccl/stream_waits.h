#pragma once
#include <cuda_runtime.h>

#include <deque>
#include <memory>

#include "base/mutex.h"
#include "comm/nccl/cuda_resources.h"

namespace echelon {

/// Makes streams wait for events, and measures how long they are blocked: a timed event is recorded before
/// and after each wait. The host does not block. Thread-safe.
class StreamWaits {
 public:
  /// Work queued on `stream` from now on starts after `end`. Throws Error(kEnvironment) where CUDA fails.
  void wait(cudaStream_t stream, const CudaEvent& end);

  /// Returns the total seconds of the waits that have ended, in issue order: a wait behind one that still
  /// runs does not count yet. Throws what wait() throws.
  [[nodiscard]] double seconds();

 private:
  struct Wait {
    std::unique_ptr<CudaEvent> began;
    std::unique_ptr<CudaEvent> ended;
  };
  void collect() ECHELON_REQUIRES(mutex_);

  Mutex mutex_;
  std::deque<Wait> under_way_ ECHELON_GUARDED_BY(mutex_);
  double seconds_ ECHELON_GUARDED_BY(mutex_) = 0;
};

}  // namespace echelon
