#include "app/cuda/peak.h"

#include <algorithm>
#include <array>

namespace echelon::app {
namespace {

/// The properties that all devices of one compute capability share.
struct Generation {
  int major, minor;
  double operations;  ///< bf16 multiplications and additions of a multiprocessor in one clock, summed in fp32
  double clock_hz;    ///< of the data sheets
};
constexpr std::array<Generation, 9> kGenerations{{{8, 0, 2048, 1.41e9},     // A100
                                                  {8, 6, 1024, 1.80e9},     // A10, A40
                                                  {8, 7, 1024, 1.30e9},     // Orin
                                                  {8, 9, 1024, 2.52e9},     // L4, L40S
                                                  {9, 0, 4096, 1.83e9},     // H100, H200
                                                  {10, 0, 8192, 1.86e9},    // B200, GB200
                                                  {10, 3, 8192, 1.92e9},    // B300, GB300
                                                  {12, 0, 1024, 2.62e9},    // RTX PRO 6000
                                                  {12, 1, 1024, 2.42e9}}};  // GB10

}  // namespace

double peak_bf16(const DeviceShape& device) {
  for (const Generation& known : kGenerations) {
    if (known.major == device.major && known.minor == device.minor)
      return device.processors * std::min(device.clock_hz, known.clock_hz) * known.operations;
  }
  return 0;
}

}  // namespace echelon::app
