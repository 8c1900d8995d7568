#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/host_staged_communicator.h"
#include "comm/process_watch.h"
#include "model/ops/device_kernels.h"
#include "shard/precision_options.h"
#include "train/options.h"

namespace echelon::app {

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// The GPUs that a rank sees: properties, memory, communication. `device` is an index below device_count().
/// Implemented in libechelon_cuda.so, so that CUDA and NCCL are neither linked nor loaded on machines without
/// a driver.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  [[nodiscard]] virtual int device_count() const = 0;
  /// Returns why the CUDA runtime shows no device. Empty if it shows one, or if the machine has none.
  [[nodiscard]] virtual std::string fault() const = 0;
  /// Identifies the physical GPU within its node, also between processes that see different subsets.
  [[nodiscard]] virtual std::string device_id(int device) const = 0;
  [[nodiscard]] virtual std::string device_name(int device) const = 0;
  /// The device's place on the PCI bus, as the kernel writes it: "0000:c4:00.0".
  [[nodiscard]] virtual std::string bus_id(int device) const = 0;
  /// Makes `device` current for the calling thread, and starts PyTorch's CUDA part, so that memory can be
  /// allocated on it.
  virtual void select(int device) = 0;
  /// Collectives (NCCL) of tensors on `device`, which no other rank may use. Collective over the job.
  /// `timeout_s`: limit of each wait.
  [[nodiscard]] virtual std::unique_ptr<Communicator> communicator(Job& job, int device, double timeout_s,
                                                                   const ProcessWatch& watch) = 0;
  /// Copies between host memory and tensors on `device`.
  [[nodiscard]] virtual DeviceCopies host_copies(int device) = 0;
  /// The kernels for tensors on these devices.
  [[nodiscard]] virtual std::shared_ptr<const ops::DeviceKernels> kernels() const = 0;
  /// The device's compute capability, times ten: 89 is 8.9.
  [[nodiscard]] virtual int capability(int device) const = 0;
  /// The memory that all processes use at the moment.
  [[nodiscard]] virtual DeviceMemory memory(int device) const = 0;
  [[nodiscard]] virtual std::uint64_t peak_bytes(int device) const = 0;
  /// Dense bf16 FLOP/s (peak_bf16); 0: unknown.
  [[nodiscard]] virtual double peak_flops(int device) const = 0;
};

using MakeAcceleratorFunction = Accelerator*();

/// The device that this rank computes on.
struct Compute {
  at::Device device = at::kCPU;
  std::shared_ptr<Accelerator> accelerator;  ///< null on the CPU
  bool shared = false;                       ///< several ranks of the job use the same GPU
};

/// Resolves train.device with the same result on every rank. auto: GPUs if each rank of the job can get its
/// own, else the CPU. cuda_shared: ranks may share the GPUs of their node. Installs the device's kernels, and
/// binds the calling thread, with those it starts from now on, to its share of the cores near the device.
/// Collective over the job, except with train.device cpu. Throws Error(kEnvironment) that names `key`, node
/// and reason if required GPUs are not available, or a node has GPUs that this installation cannot use.
[[nodiscard]] Compute choose_compute(const TrainOptions& options, Job& job, const char* key = "train.device");

/// Throws Error(kEnvironment) if the device does not support a type of `precision`.
void require_precision(const Compute& compute, const PrecisionOptions& precision);

/// Collectives of tensors on the rank's device. Null on the CPU. NCCL if no GPU is shared; else data is
/// staged through host memory, because NCCL refuses two ranks on one GPU. Collective over the job.
[[nodiscard]] std::unique_ptr<Communicator> device_communicator(const Compute& compute, Job& job,
                                                                double timeout_s, const ProcessWatch& watch);

}  // namespace echelon::app

extern "C" {
/// Defined in libechelon_cuda.so. The caller owns the result.
echelon::app::MakeAcceleratorFunction echelon_make_accelerator;
}
