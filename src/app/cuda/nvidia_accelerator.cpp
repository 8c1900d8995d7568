#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>

#include "app/cuda/nvidia_kernels.h"
#include "app/cuda/peak.h"
#include "app/engine/accelerator.h"
#include "base/number.h"
#include "base/str.h"
#include "comm/nccl/cuda_resources.h"
#include "comm/nccl/nccl_communicator.h"

namespace echelon::app {
namespace {

cudaStream_t current_stream(int device) {
  return at::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

/// Device memory from the pool of tensors, so it is counted with them and reused by them.
CudaMemory pool_memory() {
  return {
      .take =
          [](std::size_t bytes, cudaStream_t stream) {
            return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, stream);
          },
      .give_back = [](void* memory, cudaStream_t) { c10::cuda::CUDACachingAllocator::raw_delete(memory); }};
}

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "querying a GPU's properties");
  return value;
}

class NvidiaAccelerator final : public Accelerator {
 public:
  NvidiaAccelerator() {
    int found = 0;
    const cudaError_t asked = cudaGetDeviceCount(&found);
    if (asked == cudaSuccess) count_ = found;
    if (asked != cudaSuccess && asked != cudaErrorNoDevice) fault_ = cudaGetErrorString(asked);
  }

  int device_count() const override { return count_; }
  std::string fault() const override { return fault_; }

  std::string device_name(int device) const override {
    cudaDeviceProp properties{};
    return cudaGetDeviceProperties(&properties, device) == cudaSuccess ? properties.name : "GPU";
  }

  std::string device_id(int device) const override {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, device), "querying a GPU's identity");
    std::string id;
    for (const char byte : properties.uuid.bytes) id += hex_digits(static_cast<unsigned char>(byte), 2);
    return id;
  }

  std::string bus_id(int device) const override {
    char id[32] = {};
    check_cuda(cudaDeviceGetPCIBusId(&id[0], sizeof id, device), "querying a GPU's place on the bus");
    return in_lower_case(&id[0]);
  }

  void select(int device) override {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    // The pool of tensors refuses whoever takes memory before the first tensor has started it.
    at::globalContext().lazyInitDevice(at::kCUDA);
  }

  std::unique_ptr<Communicator> communicator(Job& job, int device, double timeout_s,
                                             const ProcessWatch& watch) override {
    select(device);
    return make_nccl_communicator(
        job, {.device = device,
              .timeout_s = timeout_s,
              .current_stream = [device] { return static_cast<void*>(current_stream(device)); },
              .watch = watch,
              .memory = pool_memory()});
  }

  DeviceCopies host_copies(int device) override {
    const auto copy = [device](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
      check_cuda(cudaMemcpyAsync(to, from, bytes, kind, current_stream(device)), "copying through the host");
      check_cuda(cudaStreamSynchronize(current_stream(device)), "copying through the host");
    };
    return {.allocate_host =
                [](std::size_t bytes) {
                  void* memory = nullptr;
                  check_cuda(cudaMallocHost(&memory, bytes),
                             str("allocating ", human_bytes(bytes), " of page-locked host memory").c_str());
                  return static_cast<std::byte*>(memory);
                },
            .free_host = [](std::byte* memory) { cudaFreeHost(memory); },
            .to_host = [copy](std::byte* host, const void* from,
                              std::size_t bytes) { copy(host, from, bytes, cudaMemcpyDeviceToHost); },
            .to_device = [copy](void* to, const std::byte* host,
                                std::size_t bytes) { copy(to, host, bytes, cudaMemcpyHostToDevice); }};
  }

  std::shared_ptr<const ops::DeviceKernels> kernels() const override { return make_nvidia_kernels(); }

  int capability(int device) const override {
    return 10 * attribute(device, cudaDevAttrComputeCapabilityMajor) +
           attribute(device, cudaDevAttrComputeCapabilityMinor);
  }

  DeviceMemory memory(int device) const override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "querying a GPU's memory");
    return {free_bytes, total_bytes};
  }

  std::uint64_t peak_bytes(int device) const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    return static_cast<std::uint64_t>(stats.reserved_bytes[0].peak);
  }

  double peak_flops(int device) const override {
    return peak_bf16({.capability = capability(device),
                      .processors = attribute(device, cudaDevAttrMultiProcessorCount),
                      .clock_hz = 1e3 * attribute(device, cudaDevAttrClockRate)});
  }

 private:
  int count_ = 0;
  std::string fault_;
};

}  // namespace
}  // namespace echelon::app

echelon::app::Accelerator* echelon_make_accelerator() {
  return new echelon::app::NvidiaAccelerator();
}
