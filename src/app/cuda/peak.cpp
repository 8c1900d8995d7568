#include "app/cuda/peak.h"

#include <algorithm>
#include <array>

namespace echelon::app {
namespace {

/// The properties that all devices of one compute capability share.
struct Generation {
  int capability;
  double operations;  ///< bf16 multiplications and additions of a multiprocessor in one clock, summed in fp32
  double clock_hz;    ///< of the data sheets
};
constexpr std::array<Generation, 9> kGenerations{{{80, 2048, 1.41e9},     // A100
                                                  {86, 1024, 1.80e9},     // A10, A40
                                                  {87, 1024, 1.30e9},     // Orin
                                                  {89, 1024, 2.52e9},     // L4, L40S
                                                  {90, 4096, 1.83e9},     // H100, H200
                                                  {100, 8192, 1.86e9},    // B200, GB200
                                                  {103, 8192, 1.92e9},    // B300, GB300
                                                  {120, 1024, 2.62e9},    // RTX PRO 6000
                                                  {121, 1024, 2.42e9}}};  // GB10

}  // namespace

double peak_bf16(const DeviceShape& device) {
  const auto* const known = std::ranges::find(kGenerations, device.capability, &Generation::capability);
  if (known == kGenerations.end()) return 0;
  return device.processors * std::min(device.clock_hz, known->clock_hz) * known->operations;
}

}  // namespace echelon::app
