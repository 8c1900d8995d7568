#pragma once
#include <dlfcn.h>

#include <filesystem>
#include <memory>

#include "app/engine/accelerator.h"
#include "base/error.h"

namespace echelon::test {

/// The plugin of this build, as the engine loads it. Throws Error(kEnvironment) with the loader's words.
inline app::Accelerator& accelerator() {
  static const std::unique_ptr<app::Accelerator> loaded = [] {
    const auto programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    const auto plugin = programs.parent_path() / "lib" / "libechelon_cuda.so";
    void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) throw Error(Code::kEnvironment, dlerror());
    auto* make = reinterpret_cast<app::MakeAcceleratorFunction*>(dlsym(library, "echelon_make_accelerator"));
    return std::unique_ptr<app::Accelerator>(make());
  }();
  return *loaded;
}

}  // namespace echelon::test
