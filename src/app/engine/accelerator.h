#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/host_staged_communicator.h"
#include "comm/process_watch.h"
#include "model/ops/device_kernels.h"
#include "shard/options.h"
#include "train/options.h"

namespace echelon::app {

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// What a rank needs to know and have of the GPUs it sees. Implemented by libechelon_cuda.so, so that neither
/// CUDA nor NCCL is linked, or even loaded, where there is no driver.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  [[nodiscard]] virtual int device_count() const = 0;
  /// Unlike on unlike GPUs of a node, whatever a process calls them.
  [[nodiscard]] virtual std::string device_id(int device) const = 0;
  [[nodiscard]] virtual std::string device_name(int device) const = 0;
  /// Makes `device` the calling thread's.
  virtual void select(int device) = 0;
  /// Collectives of tensors on `device`, which serves no other rank. Collective over the job.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(Job& job, int device, double timeout_s,
                                                                   const ProcessWatch& watch) = 0;
  /// Copies between host memory and tensors on `device`.
  [[nodiscard]] virtual DeviceCopies host_copies(int device) = 0;
  /// What tensors on its devices are computed with.
  [[nodiscard]] virtual std::shared_ptr<const ops::DeviceKernels> kernels() const = 0;
  /// Does the device compute in bf16 (compute capability 8.0 and up)?
  [[nodiscard]] virtual bool has_bf16(int device) const = 0;
  /// Now, over all processes.
  [[nodiscard]] virtual DeviceMemory memory(int device) const = 0;
  [[nodiscard]] virtual std::uint64_t peak_bytes(int device) const = 0;
  /// Dense bf16 FLOP/s of the data sheet; 0 when the device is not in the table.
  [[nodiscard]] virtual double peak_flops(int device) const = 0;
};

using MakeAcceleratorFunction = Accelerator*();

/// Where this rank computes.
struct Compute {
  at::Device device = at::kCPU;
  std::shared_ptr<Accelerator> accelerator;  ///< null on the CPU
  bool shared = false;                       ///< some GPU of the job serves several ranks
};

/// Resolves train.device, the same way on every rank: auto takes GPUs when each rank of the job can have its
/// own, else the CPU; cuda_shared lets ranks share those of their node. Collective over the job unless the
/// answer is "cpu". Installs the device's kernels. Throws Error(kEnvironment) when GPUs are demanded and
/// cannot be had, naming node and reason.
[[nodiscard]] Compute choose_compute(const TrainOptions& options, Job& job);

/// Throws Error(kEnvironment) where the device cannot compute in what `options` ask for.
void require_precision(const Compute& compute, const PrecisionOptions& options);

/// Collectives of tensors where this rank computes: null on the CPU, NCCL's on GPUs of one rank each, and by
/// way of the host where ranks share one, which NCCL refuses. Collective over the job.
[[nodiscard]] std::unique_ptr<Communicator> device_communicator(const Compute& compute, Job& job,
                                                                double timeout_s, const ProcessWatch& watch);

}  // namespace echelon::app

extern "C" {
/// In libechelon_cuda.so; the caller owns the result.
echelon::app::MakeAcceleratorFunction echelon_make_accelerator;
}
