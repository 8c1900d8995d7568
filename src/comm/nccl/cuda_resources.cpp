#include "comm/nccl/cuda_resources.h"

#include "base/str.h"

namespace echelon {

void check_cuda(cudaError_t result, const char* doing) {
  if (result == cudaSuccess) return;
  throw Error(Code::kEnvironment,
              str(doing, ": ", cudaGetErrorString(result), " (", cudaGetErrorName(result), ")"));
}

CudaStream::CudaStream() {
  int least = 0;
  int greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for stream priorities");
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "making a stream");
}

CudaStream::~CudaStream() {
  cudaStreamDestroy(stream_);
}

CudaEvent::CudaEvent(cudaStream_t stream) {
  check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event");
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

CudaScratch::~CudaScratch() {
  if (memory_ != nullptr) cudaFreeAsync(memory_, stream_->get());
}

void* CudaScratch::get(std::size_t bytes) {
  if (bytes <= bytes_) return memory_;
  if (memory_ != nullptr) check_cuda(cudaFreeAsync(memory_, stream_->get()), "freeing device memory");
  memory_ = nullptr;
  bytes_ = 0;
  check_cuda(cudaMallocAsync(&memory_, bytes, stream_->get()),
             str("taking ", human_bytes(bytes), " of device memory for communication").c_str());
  bytes_ = bytes;
  return memory_;
}

}  // namespace echelon
