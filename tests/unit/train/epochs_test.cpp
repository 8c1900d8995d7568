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

// 1,000 samples twice: half of the steps were of 10 samples, and later ones are of 20, or the other way
// round.
TEST(Epochs, CountSamplesAlsoWhereTheBatchSizeHasChanged) {
  const Epochs larger(1000, 20, {.step = 100, .sample = 1000});
  EXPECT_EQ(larger.steps(2), 150);
  EXPECT_EQ(larger.completed(149), 1);
  EXPECT_TRUE(larger.ends(150, 1));
  EXPECT_EQ(larger.passes(125), 1.5);
  EXPECT_EQ(Epochs(1000, 10, {.step = 50, .sample = 1000}).steps(2), 150);
  EXPECT_EQ(Epochs(1000, 10, {.step = 70, .sample = 2003}).steps(2), 70) << "complete";
  EXPECT_EQ(Epochs(1000, 10, {.step = 70, .sample = 1995}).steps(2), 71);
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
