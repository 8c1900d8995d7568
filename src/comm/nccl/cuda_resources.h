#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/not_copied.h"

namespace echelon {

/// Throws Error(kEnvironment) "<doing>: <CUDA's reason>" for anything but success.
void check_cuda(cudaError_t result, const char* doing);

/// A stream of the highest priority that does not wait for the default stream.
class CudaStream : NotCopied {
 public:
  CudaStream();
  ~CudaStream();
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream. Recorded on construction.
class CudaEvent : NotCopied {
 public:
  enum class Kind { kOrder, kTimed };  ///< kOrder has no timestamp and costs the device less

  explicit CudaEvent(cudaStream_t stream, Kind kind = Kind::kOrder);
  ~CudaEvent();
  [[nodiscard]] cudaEvent_t get() const { return event_; }
  /// The stream has passed it. Throws Error(kEnvironment) where the device has failed.
  [[nodiscard]] bool passed() const;
  /// Seconds from the event `began` to this one. Both events are timed and have passed.
  [[nodiscard]] double seconds_since(const CudaEvent& began) const;

 private:
  cudaEvent_t event_ = nullptr;
};

/// Page-locked host memory, which the device reads and writes directly. A copy from or to pageable memory may
/// block the host until the stream is idle, and so wait for ranks that have died.
class CudaPinned : NotCopied {
 public:
  explicit CudaPinned(std::size_t bytes);
  ~CudaPinned();
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  void* memory_ = nullptr;
};

/// A source of device memory; allocation and release are in stream order.
struct CudaMemory {
  std::function<void*(std::size_t bytes, cudaStream_t stream)> take;
  std::function<void(void* memory, cudaStream_t stream)> give_back;
};
/// Returns memory of the driver's pool (cudaMallocAsync). It appears in no memory accounting.
[[nodiscard]] CudaMemory driver_memory();

/// Device memory that grows in stream order and is reused by later operations of that stream.
class CudaScratch : NotCopied {
 public:
  CudaScratch(std::shared_ptr<CudaStream> stream, CudaMemory source)
      : stream_(std::move(stream)), source_(std::move(source)) {}
  ~CudaScratch();
  [[nodiscard]] void* get(std::size_t bytes);

 private:
  std::shared_ptr<CudaStream> stream_;
  CudaMemory source_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace echelon
