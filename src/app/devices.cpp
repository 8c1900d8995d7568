#include "app/devices.h"

#include <dlfcn.h>

#include <cctype>
#include <memory>

#include "base/process/plugin.h"
#include "base/str.h"

namespace echelon::app {
namespace {

struct Unload {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Unload>;

Library load(const char* name, int flags = 0) {
  return Library(dlopen(name, RTLD_NOW | RTLD_LOCAL | flags));
}

/// Every function of the driver API returns 0 on success.
template <class... Arguments>
int call(const Library& library, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library.get(), name));
  return function ? function(arguments...) : -1;
}

/// The kernel's module has made a node for a GPU: /dev/nvidia0, /dev/nvidia1, ...
bool has_device_node() {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename();
    if (name.rfind("nvidia", 0) == 0 && name.size() > 6 && std::isdigit(static_cast<unsigned char>(name[6])))
      return true;
  }
  return false;
}

}  // namespace

Driver find_driver() {
  constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
  // A driver that has started has threads: it stays.
  const Library library = load("libcuda.so.1", RTLD_NODELETE);
  if (!library) return {.state = "no CUDA driver (libcuda.so.1 was not found)"};
  Driver driver{.installed = true};
  if (const int fault = call(library, "cuInit", 0U); fault != 0) {
    driver.state = str("the CUDA driver does not start (cuInit gives ", fault, ")");
    driver.has_gpus = fault != kNoDevice && has_device_node();
    return driver;
  }
  int version = 0;
  int count = 0;
  call(library, "cuDriverGetVersion", &version);
  driver.state = str("CUDA driver ", version / 1000, ".", version % 1000 / 10);
  call(library, "cuDeviceGetCount", &count);
  for (int device = 0; device < count; ++device) {
    char name[128] = {};
    call(library, "cuDeviceGetName", &name[0], static_cast<int>(sizeof(name) - 1), device);
    driver.gpus.emplace_back(name);
  }
  driver.has_gpus = count > 0;
  return driver;
}

std::string find_nccl() {
  const Library nccl = load("libnccl.so.2");
  int version = 0;
  if (!nccl || call(nccl, "ncclGetVersion", &version) != 0)
    return "no NCCL (libnccl.so.2 is not in the library path)";
  return str("NCCL ", version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

void* load_gpu_code(const std::filesystem::path& plugin, std::string& why) {
  const auto open = [&why](const std::filesystem::path& file) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) why = dlerror();
    return library;
  };
  if (void* library = open(plugin)) return library;
  const auto gpu_half = loaded_file("libtorch_cpu.so").parent_path() / "libtorch_cuda.so";
  return open(gpu_half) == nullptr ? nullptr : open(plugin);
}

}  // namespace echelon::app
