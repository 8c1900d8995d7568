#include "gpu/accelerator.h"

#include <gtest/gtest.h>

#include "dist/ranks.h"
#include "gpu/device.h"

// The product's communicator of GPUs, whose memory is PyTorch's, on one device per rank. A program of its
// own: nothing may have started that memory before.
namespace echelon {
namespace {

using testing::ranks;

TEST(Accelerator, ItsMemoryServesASplitBeforeAnyTensorExists) {
  const JobInfo& info = ranks().info();
  const int devices = test::visible_devices();
  if (devices < info.local_size)
    GTEST_SKIP() << "needs " << info.local_size << " CUDA devices, " << devices << " visible";
  const auto world = test::accelerator().communicator(*ranks().job, info.local_rank, 20.0, {});
  const auto half = world->split([](int rank) { return rank % 2; });
  half->barrier("ranks of one color");
  EXPECT_EQ(half->size(), (world->size() + 1 - world->rank() % 2) / 2);
}

}  // namespace
}  // namespace echelon
