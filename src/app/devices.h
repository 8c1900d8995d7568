#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace echelon::app {

/// Facts from this machine's driver, without CUDA's runtime.
struct Driver {
  bool installed = false;         ///< libcuda.so.1 loads
  std::string state;              ///< "CUDA driver 13.0", or why it is not usable
  std::vector<std::string> gpus;  ///< names in its order; those that this process may use
  /// GPUs are in this machine, whether the driver starts or not; false where they are hidden from this
  /// process.
  bool has_gpus = false;
};
[[nodiscard]] Driver find_driver();

/// "NCCL 2.28.9", or why none is usable.
[[nodiscard]] std::string find_nccl();

/// Loads the GPU half `plugin` for the whole process, once libtorch is loaded. A build knows the places of
/// what it needs; a released folder's needs are met by the GPU half of that libtorch, and by what that one
/// brings. Null, with the loader's reason in `why`.
[[nodiscard]] void* load_gpu_code(const std::filesystem::path& plugin, std::string& why);

}  // namespace echelon::app
