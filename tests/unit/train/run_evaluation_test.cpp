#include "train/eval/run_evaluation.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(EvaluationShare, TheFirstEvaluationAlwaysFits) {
  const EvaluationShare share(0.01, 100);
  EXPECT_TRUE(share.fits(100));
}

TEST(EvaluationShare, AnEvaluationFitsIfItWouldStillBeWithinTheShareAtItsEnd) {
  EvaluationShare share(0.1, 100);
  share.took(5);
  // Ten seconds of evaluations are a tenth of 100 s, which have passed when the second one ends.
  EXPECT_FALSE(share.fits(194));
  EXPECT_TRUE(share.fits(195));
  share.took(1);
  EXPECT_TRUE(share.fits(195)) << "the last one is the forecast: 7 of 96 s";
  share.took(30);
  EXPECT_FALSE(share.fits(300));
  EXPECT_TRUE(share.fits(730));
}

TEST(EvaluationShare, AllOfTheTimeIsNoLimit) {
  EvaluationShare share(1, 0);
  share.took(5);
  EXPECT_TRUE(share.fits(5));
}

}  // namespace
}  // namespace echelon
