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
    EXPECT_TRUE(at::equal(ema.slices()[u], small.masters()[u].narrow(0, 0, ema.slices()[u].numel())));
    EXPECT_FALSE(ema.slices()[u].is_same(small.masters()[u]));
    EXPECT_NE(ema.slices()[u].const_data_ptr(), small.masters()[u].const_data_ptr());
  }
}

TEST(Ema, FollowsTheWeightsByItsDecay) {
  for (const double decay : {0.5, 0.9, 0.999}) {
    const SmallModel small;
    Ema ema(decay, small.model);
    std::vector<at::Tensor> exact;
    const auto weights = [&](std::size_t u) {  // without padding
      return small.masters()[u].narrow(0, 0, ema.slices()[u].numel()).to(at::kDouble);
    };
    for (std::size_t u = 0; u < ema.slices().size(); ++u) exact.push_back(weights(u));
    for (int step = 1; step <= 5; ++step) {
      small.fill(small.masters(), str("weights", step));
      ema.update();
      for (std::size_t u = 0; u < exact.size(); ++u) exact[u] = decay * exact[u] + (1 - decay) * weights(u);
    }
    for (std::size_t u = 0; u < exact.size(); ++u)
      EXPECT_TRUE(at::allclose(ema.slices()[u].to(at::kDouble), exact[u], 1e-6, 1e-6)) << decay;
  }
}

TEST(Ema, AveragesOnlyWhatIsTrained) {
  const SmallModel small(1, 3, {.lr_factors = {{"model.layers.0.*", 0}, {"*.q_proj.*", 0}, {"*norm*", 0}}});
  Ema ema(0.5, small.model);
  small.fill(small.masters(), "weights");
  ema.restart();
  std::map<std::string, at::Tensor> expected;
  small.for_each_piece(small.masters(), [&](const SlicePiece& piece, const at::Tensor& values) {
    expected[piece.part->name] = 1.5 * values;
  });
  for (at::Tensor weights : small.masters()) weights.mul_(2.0);
  ema.update();
  std::size_t averaged = 0;
  small.for_each_piece(
      ema.slices(),
      [&](const SlicePiece& piece, const at::Tensor& values) {
        EXPECT_TRUE(at::allclose(values, expected.at(piece.part->name))) << piece.part->name;
        ++averaged;
      },
      test::trained);
  EXPECT_LT(averaged, expected.size());
  EXPECT_GT(averaged, 0U);
}

}  // namespace
}  // namespace echelon
