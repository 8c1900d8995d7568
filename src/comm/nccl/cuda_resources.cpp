#include "comm/nccl/cuda_resources.h"

#include "base/str.h"

namespace echelon {

void check_cuda(cudaError_t result, const char* doing) {
  if (result == cudaSuccess) return;
  throw Error(Code::kEnvironment, doing, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result),
              ")");
}

CudaStream::CudaStream() {
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying stream priorities");
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "making a stream");
}

CudaStream::~CudaStream() {
  cudaStreamDestroy(stream_);
}

CudaEvent::CudaEvent(cudaStream_t stream, Kind kind) {
  const unsigned flags = kind == Kind::kTimed ? cudaEventDefault : cudaEventDisableTiming;
  check_cuda(cudaEventCreateWithFlags(&event_, flags), "making an event");
  const cudaError_t recorded = cudaEventRecord(event_, stream);
  if (recorded != cudaSuccess) cudaEventDestroy(event_);
  check_cuda(recorded, "recording an event");
}

bool CudaEvent::passed() const {
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) return false;
  check_cuda(state, "the device has failed");
  return true;
}

double CudaEvent::seconds_since(const CudaEvent& began) const {
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, began.event_, event_), "querying the time between two events");
  return static_cast<double>(ms) / 1e3;
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);
}

CudaPinned::CudaPinned(std::size_t bytes) {
  check_cuda(cudaHostAlloc(&memory_, bytes, cudaHostAllocDefault),
             str("pinning ", human_bytes(bytes), " of host memory").c_str());
}

CudaPinned::~CudaPinned() {
  cudaFreeHost(memory_);
}

CudaMemory driver_memory() {
  return {.take =
              [](std::size_t bytes, cudaStream_t stream) {
                void* memory = nullptr;
                check_cuda(
                    cudaMallocAsync(&memory, bytes, stream),
                    str("allocating ", human_bytes(bytes), " of device memory for communication").c_str());
                return memory;
              },
          // If the device has failed, the memory is lost anyhow.
          .give_back = [](void* memory, cudaStream_t stream) { (void)cudaFreeAsync(memory, stream); }};
}

CudaScratch::~CudaScratch() {
  if (memory_ != nullptr) source_.give_back(memory_, stream_->get());
}

void* CudaScratch::get(std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  if (memory_ != nullptr) source_.give_back(memory_, stream_->get());
  memory_ = nullptr;
  bytes_ = 0;
  memory_ = source_.take(bytes, stream_->get());
  bytes_ = bytes;
  return memory_;
}

}  // namespace echelon
