#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "base/error.h"

namespace echelon {

/// Throws Error(kEnvironment) "<doing>: <CUDA's reason>" for anything but success.
void check_cuda(cudaError_t result, const char* doing);

/// A stream of the highest priority that does not wait for the default stream.
class CudaStream {
 public:
  CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream, without timing. Recorded on construction.
class CudaEvent {
 public:
  explicit CudaEvent(cudaStream_t stream);
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();
  [[nodiscard]] cudaEvent_t get() const { return event_; }
  /// The stream has passed it (or failed: the operation is then over, too).
  [[nodiscard]] bool passed() const { return cudaEventQuery(event_) != cudaErrorNotReady; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Device memory that grows in stream order and is reused by later operations of that stream.
class CudaScratch {
 public:
  explicit CudaScratch(cudaStream_t stream) : stream_(stream) {}
  CudaScratch(const CudaScratch&) = delete;
  CudaScratch& operator=(const CudaScratch&) = delete;
  ~CudaScratch();
  [[nodiscard]] void* get(std::size_t bytes);

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace echelon
