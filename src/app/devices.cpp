#include "app/devices.h"

#include <dlfcn.h>

#include <memory>

#include "base/str.h"

namespace echelon::app {
namespace {

struct Unload {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Unload>;

Library load(const char* name) {
  return Library(dlopen(name, RTLD_NOW | RTLD_LOCAL));
}

/// Every function of the driver API returns 0 on success.
template <class... Arguments>
int call(const Library& library, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library.get(), name));
  return function ? function(arguments...) : -1;
}

void ask_driver(Devices& devices) {
  const Library driver = load("libcuda.so.1");
  if (!driver) {
    devices.driver = "no CUDA driver (libcuda.so.1 was not found)";
    return;
  }
  int version = 0;
  int count = 0;
  const int fault = call(driver, "cuInit", 0U);
  if (fault != 0) {
    devices.driver = str("the CUDA driver does not start (cuInit gives ", fault, ")");
    return;
  }
  call(driver, "cuDriverGetVersion", &version);
  devices.driver = str("CUDA driver ", version / 1000, ".", version % 1000 / 10);
  call(driver, "cuDeviceGetCount", &count);
  for (int device = 0; device < count; ++device) {
    char name[128] = {};
    call(driver, "cuDeviceGetName", &name[0], static_cast<int>(sizeof(name) - 1), device);
    devices.gpus.emplace_back(name);
  }
}

void ask_nccl(Devices& devices) {
  const Library nccl = load("libnccl.so.2");
  int version = 0;
  if (!nccl || call(nccl, "ncclGetVersion", &version) != 0) {
    devices.nccl = "no NCCL (libnccl.so.2 is not in the library path)";
    return;
  }
  devices.nccl = str("NCCL ", version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

}  // namespace

Devices find_devices() {
  Devices devices;
  ask_driver(devices);
  ask_nccl(devices);
  return devices;
}

}  // namespace echelon::app
