#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// What this machine offers beside its cores, asked of libraries that need not be there.
struct Devices {
  std::vector<std::string> gpus;  ///< names, in the driver's order
  std::string driver;             ///< "CUDA driver 13.0", or why there is none
  std::string nccl;               ///< "NCCL 2.28.9", or why there is none
};

[[nodiscard]] Devices find_devices();

}  // namespace echelon::app
