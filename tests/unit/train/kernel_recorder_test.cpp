#include "train/measure/kernel_recorder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/steady_time.h"

namespace echelon {
namespace {

// The device of these tests is the CPU, whose operations take the place of kernels.
TEST(KernelRecorder, TellsWhatRanOnTheClockOfSpans) {
  const auto recorder = make_kernel_recorder(at::kCPU);
  const at::Tensor x = at::ones({256, 256});
  for (int again = 0; again < 2; ++again) {
    recorder->begin();
    const double began_s = steady_now_s();
    const at::Tensor y = at::mm(x, x);
    const double ended_s = steady_now_s();
    const std::vector<profile::Kernel> ran = recorder->end();
    const auto product = std::ranges::find(ran, "aten::mm", &profile::Kernel::name);
    ASSERT_NE(product, ran.end());
    constexpr double kClocks_s = 0.01;  // the system's may be corrected meanwhile
    EXPECT_GE(product->begin_s, began_s - kClocks_s);
    EXPECT_LE(product->end_s, ended_s + kClocks_s);
    EXPECT_GT(product->seconds(), 0);
    EXPECT_EQ(std::ranges::count(ran, "aten::mm", &profile::Kernel::name), 1);
  }
  const at::Tensor unrecorded = at::mm(x, x);
}

}  // namespace
}  // namespace echelon
