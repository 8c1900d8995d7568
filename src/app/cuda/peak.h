#pragma once

namespace echelon::app {

/// Properties of a device, from CUDA.
struct DeviceShape {
  int capability = 0;   ///< Accelerator::capability()
  int processors = 0;   ///< multiprocessors (SMs)
  double clock_hz = 0;  ///< highest
};

/// Dense bf16 FLOP/s of the tensor cores: processors x clock x operations. The clock is at most the one that
/// NVIDIA's data sheets multiply with, so that the numbers are theirs: 989e12 for an H100 SXM, whose highest
/// clock is another 8 % above that. 0 for an unknown compute capability.
[[nodiscard]] double peak_bf16(const DeviceShape& device);

}  // namespace echelon::app
