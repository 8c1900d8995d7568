#include "train/epochs.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace echelon {
namespace {

TEST(Epochs, EndWhereTheLastSampleIsSeen) {
  const Epochs epochs(10, 4);  // steps see 4, 8, 12, 16, 20 samples
  EXPECT_EQ(epochs.steps(1), 3);
  EXPECT_EQ(epochs.steps(2), 5);
  const bool ends[] = {false, false, true, false, true, false, false, true};
  for (std::int64_t step = 1; step <= 8; ++step) EXPECT_EQ(epochs.ends(step, 1), ends[step - 1]) << step;
  EXPECT_FALSE(epochs.ends(3, 2));
  EXPECT_TRUE(epochs.ends(5, 2));
  EXPECT_FALSE(epochs.ends(5, 0));
}

TEST(Epochs, MayBeShorterThanAStep) {
  const Epochs epochs(3, 8);
  EXPECT_EQ(epochs.steps(1), 1);
  EXPECT_EQ(epochs.steps(4), 2);
  EXPECT_EQ(epochs.completed(1), 2);
  EXPECT_TRUE(epochs.ends(1, 1));
}

TEST(Epochs, BecomeTheStepsOfARun) {
  TrainOptions options;
  options.steps = 77;
  EXPECT_EQ(with_steps(options, {10, 4}).steps, 77);
  options.epochs = 2;
  EXPECT_EQ(with_steps(options, {10, 4}).steps, 5);
  EXPECT_EQ(with_steps(options, {10, 4}).epochs, 0);
  EXPECT_THROW((void)with_steps(options, {std::int64_t{1} << 40, 1}), Error);
}

}  // namespace
}  // namespace echelon
