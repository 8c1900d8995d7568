#include "train/save/kept_best.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

using State = SaveOutcome::State;
using Best = std::optional<BestValidation>;
using Steps = std::vector<std::int64_t>;

/// Step of the best validation; 0: there is none.
std::int64_t step_of(const Best& best) {
  return best ? best->step : 0;
}

const Best kAt10 = BestValidation{10, 3.0};
const Best kAt20 = BestValidation{20, 2.0};
const Best kAt30 = BestValidation{30, 1.0};

TEST(BestValidation, IsTheLowestLossOrTheHighestScoreOfOneTask) {
  EXPECT_TRUE((beats({1, 1.0}, {2, 2.0})));
  EXPECT_FALSE((beats({1, 2.0}, {2, 2.0})));
  EXPECT_TRUE((beats({1, 0.5, "piqa"}, {2, 0.4, "piqa"})));
  EXPECT_FALSE((beats({1, 0.4, "piqa"}, {2, 0.4, "piqa"})));
  EXPECT_TRUE((beats({1, 0.1, "piqa"}, {2, 0.4, "arc"}))) << "what another task has found is void";
  EXPECT_TRUE((beats({1, 9.0}, {2, 0.4, "arc"})));
  EXPECT_TRUE((beats({1, 9.0, "", 5}, {2, 2.0, "", 4}))) << "so is what was measured on other data";
  EXPECT_FALSE((beats({1, 9.0, "", 5}, {2, 2.0, "", 5})));
}

TEST(KeptBest, OnlyTheStepOfTheBestValidationIsOne) {
  const KeptBest kept(true);
  EXPECT_TRUE(kept.is_new(kAt10, 10));
  EXPECT_FALSE(kept.is_new(kAt10, 11));
  EXPECT_FALSE(kept.is_new({}, 10));
  EXPECT_FALSE(KeptBest(false).is_new(kAt10, 10));
}

TEST(KeptBest, ABestThatFailedGivesWayToTheOneOnTheDisk) {
  KeptBest kept(true);
  EXPECT_EQ(step_of(kept.ended(kAt10, State::kFailed, kAt10)), 0) << "there is none before it";
  EXPECT_EQ(step_of(kept.ended(kAt10, State::kCommitted, kAt10)), 10);
  EXPECT_EQ(step_of(kept.ended(kAt20, State::kWriting, kAt20)), 20);
  EXPECT_EQ(step_of(kept.ended(kAt20, State::kHanging, kAt20)), 20);
  EXPECT_EQ(step_of(kept.ended(kAt20, State::kFailed, kAt20)), 10);
  EXPECT_EQ(step_of(kept.ended(kAt20, State::kFailed, kAt30)), 30) << "a newer one does not depend on it";
  EXPECT_EQ(step_of(kept.ended({}, State::kFailed, kAt30)), 30) << "no best was in that save";
}

TEST(KeptBest, ACommitThatIsNotCertainToLastDoesNotReplaceTheOneBefore) {
  KeptBest kept(true);
  kept.begin(kAt10);
  EXPECT_EQ(step_of(kept.ended(kAt20, State::kUncertain, kAt20)), 20);
  EXPECT_EQ(step_of(kept.left_out(kAt30, 30)), 10);
}

TEST(KeptBest, ABestThatIsLeftOutIsForgotten) {
  KeptBest kept(true);
  kept.begin(kAt10);
  EXPECT_EQ(step_of(kept.left_out(kAt20, 20)), 10);
  EXPECT_EQ(step_of(kept.left_out(kAt20, 21)), 20) << "another step was left out";
}

TEST(KeptBest, TheOneBeforeStaysUntilTheNewOneIsCertain) {
  KeptBest kept(true);
  EXPECT_EQ(kept.steps_to_keep({}, 5), Steps{});
  kept.begin(kAt10);
  EXPECT_EQ(kept.steps_to_keep(kAt20, 20), Steps{20}) << "its own commit makes it certain";
  EXPECT_EQ(kept.steps_to_keep(kAt20, 25), (Steps{20, 10}));
  (void)kept.ended(kAt20, State::kCommitted, kAt20);
  EXPECT_EQ(kept.steps_to_keep(kAt20, 30), (Steps{20, 20}));
  EXPECT_EQ(KeptBest(false).steps_to_keep(kAt20, 20), Steps{});
}

}  // namespace
}  // namespace echelon
