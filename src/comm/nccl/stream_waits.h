#pragma once
#include <cuda_runtime.h>

#include <deque>
#include <memory>
#include <mutex>

#include "comm/nccl/cuda_resources.h"

namespace echelon {

/// Makes streams wait for events, and measures for how long they stand still: each wait lies between two
/// events with a time. The host waits for nothing. Safe from several threads.
class StreamWaits {
 public:
  /// What `stream` gets from now on starts after `end`. Throws Error(kEnvironment) where CUDA fails.
  void wait(cudaStream_t stream, const CudaEvent& end);

  /// Seconds of the waits that have ended, as far as they ended in the order of their issue. Throws as
  /// wait().
  [[nodiscard]] double seconds();

 private:
  struct Wait {
    std::unique_ptr<CudaEvent> began;
    std::unique_ptr<CudaEvent> ended;
  };
  void collect();

  std::mutex mutex_;
  std::deque<Wait> under_way_;
  double seconds_ = 0;
};

}  // namespace echelon
