#include "app/engine/accelerator.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <sstream>

#include "app/engine/device_choice.h"
#include "base/error.h"
#include "base/str.h"
#include "shard/precision.h"

namespace echelon::app {
namespace {

/// The plugin is in the folder of this library, which need not be the program's.
std::filesystem::path plugin_path() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&plugin_path), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / "libechelon_cuda.so";
}

/// Returns null, with the reason in `why`, if there is no usable GPU.
std::shared_ptr<Accelerator> load_accelerator(std::string& why) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    why = "this node has no NVIDIA driver (libcuda.so.1)";
    return nullptr;
  }
  const std::filesystem::path path = plugin_path();
  if (!std::filesystem::exists(path)) {
    why = "this build has no GPU code (configure with -DECHELON_CUDA=ON)";
    return nullptr;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    why = str("the GPU code cannot be loaded: ", dlerror());
    return nullptr;
  }
  auto* make = reinterpret_cast<MakeAcceleratorFunction*>(dlsym(library, "echelon_make_accelerator"));
  if (make == nullptr) {
    why = str(path.string(), " is from a different version");
    return nullptr;
  }
  return std::shared_ptr<Accelerator>(make());
}

/// A rank's message: why it sees no GPU (or an empty line), then one id per line.
Blob told(const VisibleDevices& mine) {
  std::string text = mine.why_none;
  for (const std::string& id : mine.ids) text += "\n" + id;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

VisibleDevices heard(const std::string& host, const Blob& blob) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(blob.data()), blob.size()));
  VisibleDevices devices{.host = host, .ids = {}, .why_none = {}};
  std::getline(text, devices.why_none);
  for (std::string id; std::getline(text, id);) devices.ids.push_back(id);
  return devices;
}

/// Collective. All ranks compute the choice from the same data: with different choices they would wait for
/// each other in different collectives.
DeviceChoice agree_on_devices(const Accelerator* accelerator, const std::string& why, Job& job, bool share) {
  VisibleDevices mine{.host = job.info().host, .ids = {}, .why_none = why};
  for (int device = 0; accelerator != nullptr && device < accelerator->device_count(); ++device)
    mine.ids.push_back(accelerator->device_id(device));
  if (mine.ids.empty() && mine.why_none.empty()) mine.why_none = "the driver shows no GPU";
  const std::vector<Blob> all = job.exchange("devices", told(mine));
  std::vector<VisibleDevices> ranks;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    ranks.push_back(heard(job.info().hosts[rank], all[rank]));
  return assign_devices(ranks, share);
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

Compute choose_compute(const TrainOptions& options, Job& job) {
  if (options.device == TrainDevice::kCpu) return {};
  std::string why;
  const auto accelerator = load_accelerator(why);
  const DeviceChoice choice =
      agree_on_devices(accelerator.get(), why, job, options.device == TrainDevice::kCudaShared);
  const bool all = std::find(choice.devices.begin(), choice.devices.end(), -1) == choice.devices.end();
  if (all) {
    if (options.deterministic) compute_in_one_order();
    const int device = choice.devices[static_cast<std::size_t>(job.info().rank)];
    accelerator->select(device);
    ops::install_device_kernels(accelerator->kernels());
    return {at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)), accelerator, choice.shared};
  }
  if (options.device == TrainDevice::kAuto) return {};
  const bool scarce = accelerator != nullptr && accelerator->device_count() > 0;
  throw Error(
      Code::kEnvironment,
      str("train.device is '", word_of(options.device), "', but ", choice.lacking, "; ",
          scarce ? "start fewer ranks per node, or use 'cuda_shared', where ranks may share a GPU, or "
                 : "use ",
          "'auto' or 'cpu' to train on the CPU"));
}

void require_precision(const Compute& compute, const PrecisionOptions& options) {
  if (!compute.accelerator || compute.accelerator->has_bf16(compute.device.index())) return;
  const Precision precision = resolve(options);
  const std::array types{precision.param, precision.reduce, precision.buffer, precision.output,
                         precision.master};
  bool wanted = std::find(types.begin(), types.end(), at::kBFloat16) != types.end();
  for (const auto& [pattern, type] : options.overrides) wanted = wanted || type == FloatType::kBf16;
  if (!wanted) return;
  throw Error(Code::kEnvironment,
              str("precision uses bf16, but ", compute.accelerator->device_name(compute.device.index()),
                  " does not support it; expected compute capability 8.0 or newer, or fp16 or fp32"));
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
