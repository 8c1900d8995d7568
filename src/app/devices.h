#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// GPUs and GPU libraries of this machine. The libraries are loaded at run time and may be missing.
struct Devices {
  std::vector<std::string> gpus;  ///< names in the driver's order
  std::string driver;             ///< "CUDA driver 13.0", or why none is usable
  std::string nccl;               ///< "NCCL 2.28.9", or why none is usable
};

[[nodiscard]] Devices find_devices();

}  // namespace echelon::app
