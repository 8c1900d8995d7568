#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime.h>

#include <array>
#include <string_view>

#include "app/engine/accelerator.h"
#include "comm/nccl/nccl_communicator.h"

namespace echelon::app {
namespace {

/// Dense bf16 FLOP/s of NVIDIA's data sheets, SXM versions; looked up by a part of the device's name.
struct Peak {
  std::string_view name;
  double flops;
};
constexpr std::array<Peak, 6> kPeaks{{{"B300", 2250e12},
                                      {"B200", 2250e12},
                                      {"H200", 989e12},
                                      {"H100", 989e12},
                                      {"A100", 312e12},
                                      {"L40S", 362e12}}};

class NvidiaAccelerator final : public Accelerator {
 public:
  NvidiaAccelerator() {
    int found = 0;
    if (cudaGetDeviceCount(&found) == cudaSuccess) count_ = found;
  }

  int device_count() const override { return count_; }

  std::string device_name(int device) const override {
    cudaDeviceProp properties{};
    return cudaGetDeviceProperties(&properties, device) == cudaSuccess ? properties.name : "GPU";
  }

  std::unique_ptr<Communicator> communicator(Job& job, int device, double timeout_s) override {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    return make_nccl_communicator(
        job, {.device = device, .timeout_s = timeout_s, .current_stream = [device] {
                return static_cast<void*>(
                    at::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream());
              }});
  }

  std::uint64_t peak_bytes(int device) const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    return static_cast<std::uint64_t>(stats.reserved_bytes[0].peak);
  }

  double peak_flops(int device) const override {
    const std::string name = device_name(device);
    for (const Peak& peak : kPeaks) {
      if (name.find(peak.name) != std::string::npos) return peak.flops;
    }
    return 0;
  }

 private:
  int count_ = 0;
};

}  // namespace
}  // namespace echelon::app

echelon::app::Accelerator* echelon_make_accelerator() {
  return new echelon::app::NvidiaAccelerator();
}
