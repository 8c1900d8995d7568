#include "train/flops.h"

#include <gtest/gtest.h>

#include "unit/train/small_model.h"

namespace echelon {
namespace {

TEST(Flops, OfFrozenParametersOnlyTheProductsThatAreComputedCount) {
  const auto share = [](const PatternMap<double>& lr_factors) {
    const test::SmallModel small(1, 2, {.lr_factors = lr_factors});
    return flops_per_sample(small.model, {8, 0}) / small.model.model().flops_per_sample({8, 0});
  };
  const double block = 2 * 8 + (8 + 2 * 4) * 8 + 8 * 8 + 3 * 8 * 12;
  const double head = 8 + 13 * 8;
  const double all = 3 * (2 * block + head);
  EXPECT_EQ(share({}), 1.0);
  EXPECT_EQ(share({{"model.embed_tokens.*", 0}}), 1.0) << "a lookup is no product";
  EXPECT_NEAR(share({{"model.layers.1.*", 0}}), (all - block) / all, 1e-12);
  EXPECT_NEAR(share({{"model.embed_tokens.*", 0}, {"model.layers.0.*", 0}}), (all - 2 * block) / all, 1e-12);
  EXPECT_NEAR(share({{"*", 0}, {"lm_head.*", 1}}), (all - 4 * block - 8) / all, 1e-12)
      << "without the norm, which is in the same unit";
}

}  // namespace
}  // namespace echelon
