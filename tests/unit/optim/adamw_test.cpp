#include "optim/update_rule.h"
#include "unit/optim/rule_check.h"

namespace echelon {
namespace {

TEST(AdamW, MovesWeightsAsThePaperSays) {
  const OptimOptions options{.betas = {0.8, 0.9}, .eps = 1e-6, .weight_decay = 0.3};
  test::expect_follows<test::ExactAdamW>(options, 2e-6);
}

TEST(AdamW, WithoutWeightDecayZeroGradientsChangeNothing) {
  const auto rule = make_rule({});
  const at::Tensor weights = at::randn({100});
  const at::Tensor before = weights.clone();
  const UpdateRange range = test::range_of(*rule, weights);
  rule->update({.number = 1, .lr = 0.1}, std::span(&range, 1));
  EXPECT_TRUE(at::equal(weights, before));
}

}  // namespace
}  // namespace echelon
