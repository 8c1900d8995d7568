#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "train/options.h"

namespace echelon::app {

/// What a rank needs to know and have of the GPUs of its node. Implemented by libechelon_cuda.so, so that
/// neither CUDA nor NCCL is linked, or even loaded, where there is no driver.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  [[nodiscard]] virtual int device_count() const = 0;
  [[nodiscard]] virtual std::string device_name(int device) const = 0;
  /// Makes `device` the calling thread's and gives the collectives of tensors on it. Collective over the job.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(Job& job, int device,
                                                                   double timeout_s) = 0;
  [[nodiscard]] virtual std::uint64_t peak_bytes(int device) const = 0;
  /// Dense bf16 FLOP/s of the data sheet; 0 when the device is not in the table.
  [[nodiscard]] virtual double peak_flops(int device) const = 0;
};

using MakeAcceleratorFunction = Accelerator*();

/// Where this rank computes.
struct Compute {
  at::Device device = at::kCPU;
  std::shared_ptr<Accelerator> accelerator;  ///< null on the CPU
};

/// Resolves train.device: auto takes the GPU of the local rank when the node has one for each of its ranks,
/// else the CPU. Throws Error(kEnvironment) when "cuda" is demanded and cannot be had, naming the reason.
[[nodiscard]] Compute choose_compute(const TrainOptions& options, const JobInfo& job);

}  // namespace echelon::app

extern "C" {
/// In libechelon_cuda.so; the caller owns the result.
echelon::app::MakeAcceleratorFunction echelon_make_accelerator;
}
