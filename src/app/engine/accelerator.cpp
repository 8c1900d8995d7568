#include "app/engine/accelerator.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/str.h"

namespace echelon::app {
namespace {

/// The plugin lies beside this library.
std::filesystem::path plugin_path() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&plugin_path), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / "libechelon_cuda.so";
}

/// Null with the reason in `why` when there is no usable GPU.
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
    why = str(path.string(), " is of another version");
    return nullptr;
  }
  return std::shared_ptr<Accelerator>(make());
}

}  // namespace

Compute choose_compute(const TrainOptions& options, const JobInfo& job) {
  if (options.device == "cpu") return {};
  std::string why;
  const auto accelerator = load_accelerator(why);
  const int devices = accelerator == nullptr ? 0 : accelerator->device_count();
  if (accelerator != nullptr && devices < job.local_size) {
    why = str("node ", job.host, " shows ", devices, " GPU(s) to its ", job.local_size, " ranks");
  }
  if (devices >= job.local_size) {
    return {at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(job.local_rank)), accelerator};
  }
  if (options.device == "auto") return {};
  throw Error(Code::kEnvironment,
              str("train.device is 'cuda', but ", why, "; use 'auto' or 'cpu' to train on the CPU"));
}

}  // namespace echelon::app
