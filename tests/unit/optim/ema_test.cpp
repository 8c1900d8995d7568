#include "optim/ema.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::SmallModel;

TEST(Ema, StartsAsACopyOfTheWeights) {
  const SmallModel small(1, 3);
  const Ema ema(0.9, small.model);
  for (std::size_t u = 0; u < ema.slices().size(); ++u) {
    EXPECT_TRUE(at::equal(ema.slices()[u], small.masters()[u]));
    EXPECT_FALSE(ema.slices()[u].is_same(small.masters()[u]));
    EXPECT_NE(ema.slices()[u].const_data_ptr(), small.masters()[u].const_data_ptr());
  }
}

TEST(Ema, FollowsTheWeightsByItsDecay) {
  for (const double decay : {0.5, 0.9, 0.999}) {
    const SmallModel small;
    Ema ema(decay, small.model);
    std::vector<at::Tensor> exact;
    for (const at::Tensor& weights : small.masters()) exact.push_back(weights.to(at::kDouble));
    for (int step = 1; step <= 5; ++step) {
      small.fill(small.masters(), str("weights", step));
      ema.update();
      for (std::size_t u = 0; u < exact.size(); ++u)
        exact[u] = decay * exact[u] + (1 - decay) * small.masters()[u].to(at::kDouble);
    }
    for (std::size_t u = 0; u < exact.size(); ++u)
      EXPECT_TRUE(at::allclose(ema.slices()[u].to(at::kDouble), exact[u], 1e-6, 1e-6)) << decay;
  }
}

}  // namespace
}  // namespace echelon
