#include "app/engine/accelerator.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/devices.h"
#include "app/engine/device_choice.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/cores.h"
#include "base/process/plugin.h"
#include "base/str.h"
#include "comm/exchange.h"
#include "comm/mpi/mpi_world.h"

namespace echelon::app {
namespace {

/// The devices that this rank can compute on besides the CPU.
struct Found {
  std::shared_ptr<Accelerator> accelerator;  ///< null: none
  std::string why;                           ///< reason if there is no device
  bool broken = false;                       ///< the node has GPUs that this installation cannot use
  bool left_out = false;                     ///< the node has GPUs, and this build no code for them
};

Found load_accelerator() {
  const Driver driver = find_driver();
  if (!driver.installed) return {.why = "this node has no NVIDIA driver (libcuda.so.1)"};
  // Beside this library, which need not be in the program's folder.
  const std::filesystem::path path = loaded_file("libechelon_engine.so").parent_path() / "libechelon_cuda.so";
  if (!std::filesystem::exists(path))
    return {.why = "this build has no GPU code (configure with -DECHELON_CUDA=ON)",
            .left_out = driver.has_gpus};
  std::string why;
  void* library = load_gpu_code(path, why);
  if (library == nullptr) {
    return {.why = str("the GPU code cannot be loaded: ", why,
                       " (install PyTorch for CUDA with all that it depends on: python3 -m pip install "
                       "torch==" TORCH_VERSION "; where it was built, ./make.sh setup)"),
            .broken = driver.has_gpus};
  }
  auto* make = reinterpret_cast<MakeAcceleratorFunction*>(dlsym(library, "echelon_make_accelerator"));
  if (make == nullptr)
    return {.why = str(path.string(), " is from a different version"), .broken = driver.has_gpus};
  Found found{.accelerator = std::shared_ptr<Accelerator>(make())};
  if (found.accelerator->device_count() > 0) return found;
  const std::string fault = found.accelerator->fault();
  found.why = str("the driver shows no GPU", fault.empty() ? "" : ": ", fault);
  found.broken = driver.has_gpus && !fault.empty();
  return found;
}

/// Collective. All ranks compute the choice from the same data: with different choices they would wait for
/// each other in different collectives.
DeviceChoice agree_on_devices(const Found& found, Job& job, bool share) {
  VisibleDevices mine{.host = job.info().host, .why_none = found.why, .broken = found.broken};
  for (int device = 0; found.accelerator && device < found.accelerator->device_count(); ++device)
    mine.ids.push_back(found.accelerator->device_id(device));
  return assign_devices(gather_values(job, mine, "devices"), share);
}

/// Memory and threads beside the device's part of the machine are the quicker ones: this rank's share of its
/// cores. Collective.
void stay_near(const std::string& bus_id, Job& job, bool threads_are_asked_for) {
  const JobInfo& info = job.info();
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/local_cpulist");
  std::string list;
  std::getline(file, list);
  const auto all = gather_values(job, list, "cores near devices");
  std::vector<std::vector<int>> near;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (info.hosts[rank] == info.host) near.push_back(cores_of_list(all[rank]));
  }
  const std::vector<int> share = fair_share(near, static_cast<std::size_t>(info.local_rank));
  bind_to(share);
  if (!share.empty() && !threads_are_asked_for)
    at::set_num_threads(std::min(at::get_num_threads(), static_cast<int>(share.size())));
}

/// Makes GPU libraries use only kernels with a fixed order of summation. Call before the first use of the
/// device, because the libraries read these settings when they start.
void compute_in_one_order() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);  // required for reproducible cuBLAS results
  setenv("NCCL_NVLS_ENABLE", "0", 0);               // NVLink switches sum in no fixed order
  at::Context& context = at::globalContext();
  // With warn_only the backward of attention would stay non-deterministic. Now an operation without a
  // deterministic kernel throws.
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Costs time, and our kernels read no memory they have not written.
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setSDPUseCuDNN(false);  // its backward is not deterministic
}

}  // namespace

Compute choose_compute(const TrainOptions& options, Job& job, const char* key) {
  if (options.device == TrainDevice::kCpu) return {};
  const Found found = load_accelerator();
  const DeviceChoice choice = agree_on_devices(found, job, options.device == TrainDevice::kCudaShared);
  const bool all = std::find(choice.devices.begin(), choice.devices.end(), -1) == choice.devices.end();
  if (all) {
    if (!choice.hiding.empty() && job.info().rank == 0)
      log::warn(str("node ", choice.hiding,
                    " shows its ranks different GPUs, and NCCL may then copy between them "
                    "through host memory; request GPUs by --gpus-per-node and start with --gpu-bind=none"));
    if (options.deterministic) compute_in_one_order();
    const int device = choice.devices[static_cast<std::size_t>(job.info().rank)];
    found.accelerator->select(device);
    stay_near(found.accelerator->bus_id(device), job, options.threads_per_rank > 0);
    ops::install_device_kernels(found.accelerator->kernels());
    return {at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)), found.accelerator, choice.shared};
  }
  if (options.device == TrainDevice::kAuto && !choice.broken) {
    if (found.left_out && job.info().rank == 0)
      log::warn(str("node ", job.info().host, " has GPUs, but ", found.why, ": computing on the CPU"));
    return {};
  }
  const bool scarce = found.accelerator && found.accelerator->device_count() > 0;
  const char* instead = "use 'auto' or ";
  if (choice.broken)
    instead = "mend that, or use ";
  else if (scarce)
    instead = "start fewer ranks per node, or use 'cuda_shared', where ranks may share a GPU, or 'auto' or ";
  throw Error(Code::kEnvironment, key, " is '", word_of(options.device), "', but ", choice.lacking, "; ",
              instead, "'cpu' to compute on the CPU");
}

void require_precision(const Compute& compute, const PrecisionOptions& precision) {
  if (!compute.accelerator) return;
  const int device = compute.device.index();
  const int capability = compute.accelerator->capability(device);
  if (precision.matmul == Matmul::kFp8 && capability < 89) {
    throw Error(Code::kEnvironment, "precision.matmul is fp8, but ", compute.accelerator->device_name(device),
                " does not support it; expected compute capability 8.9 or newer (Ada, Hopper, Blackwell), "
                "or precision.matmul: param");
  }
  const PrecisionTypes types = types_of(precision);
  const bool wanted = computes_in(precision, FloatType::kBf16) || types.buffer == FloatType::kBf16 ||
                      types.master == FloatType::kBf16;
  if (!wanted || capability >= 80) return;
  throw Error(Code::kEnvironment, "precision uses bf16, but ", compute.accelerator->device_name(device),
              " does not support it; expected compute capability 8.0 or newer, or fp16 or fp32");
}

std::unique_ptr<Communicator> device_communicator(const Compute& compute, Job& job, double timeout_s,
                                                  const ProcessWatch& watch) {
  if (!compute.accelerator) return nullptr;
  const int device = compute.device.index();
  if (!compute.shared) return compute.accelerator->communicator(job, device, timeout_s, watch);
  return make_host_staged_communicator(make_mpi_communicator(job, timeout_s, watch),
                                       compute.accelerator->host_copies(device));
}

}  // namespace echelon::app
