#include "train/measure/memory_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace echelon {
namespace {

TEST(MemoryReport, ActivationsAreWhatADeviceHoldsBesideItsState) {
  MemoryReport report{.weights = 1, .gradients = 2, .optimizer = 4, .averaged = 8};
  report.pool = 16;
  report.tensors_peak = 131;
  const auto activations = [&](std::uint64_t device_bytes) {
    const auto all = categories(report, device_bytes);
    return std::ranges::find(all, std::string("activations"), &MemoryCategory::name)->bytes;
  };
  EXPECT_EQ(activations(0), 131 - 15 - 16) << "the host computes";
  EXPECT_EQ(activations(1031), 1031 - 15 - 16);
  report.offloaded = true;
  EXPECT_EQ(activations(1031), 1031 - 16);
}

}  // namespace
}  // namespace echelon
