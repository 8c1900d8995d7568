#include "train/measure/flops.h"

#include <gtest/gtest.h>

#include "unit/train/small_model.h"

namespace echelon {
namespace {

constexpr SampleShape kSample{8, 0};

TEST(Flops, OfFrozenParametersOnlyTheProductsThatAreComputedCount) {
  /// The share of matrix products, if `attention` of attention is computed.
  const auto share = [](const PatternMap<double>& lr_factors, double attention = 1) {
    const test::SmallModel small(1, 2, {.lr_factors = lr_factors});
    const SampleFlops whole = small.model.model().flops_per_sample(kSample);
    return (flops_per_sample(small.model, kSample) - attention * whole.attention) / whole.matrices;
  };
  const double block = 2 * 8 + (8 + 2 * 4) * 8 + 8 * 8 + 3 * 8 * 12;
  const double head = 8 + 13 * 8;
  const double all = 3 * (2 * block + head);
  EXPECT_NEAR(share({}), 1, 1e-12);
  EXPECT_NEAR(share({{"model.embed_tokens.*", 0}}), 1, 1e-12) << "a lookup is no product";
  EXPECT_NEAR(share({{"model.layers.1.*", 0}}), (all - block) / all, 1e-12);
  EXPECT_NEAR(share({{"model.embed_tokens.*", 0}, {"model.layers.0.*", 0}}, 2.0 / 3), (all - 2 * block) / all,
              1e-12);
  EXPECT_NEAR(share({{"*", 0}, {"lm_head.*", 1}}, 1.0 / 3), (all - 4 * block - 8) / all, 1e-12)
      << "without the norm, which is in the same unit";
}

TEST(Flops, AdaptersSaveOnlyTheGradientsOfFrozenWeights) {
  struct Case {
    bool tied;
    WrapPolicy policy;
  };
  for (const auto [tied, policy] :
       {Case{false, WrapPolicy::kTransformer}, {true, WrapPolicy::kTransformer}, {true, WrapPolicy::kNone}}) {
    LocalCommunicator comm;
    EngineOptions options;
    options.shard.wrap.policy = policy;
    const ShardedModel model(build_model(test::small_options(tied), at::kFloat, at::kCPU, {.rank = 2}), comm,
                             options, 3, at::kCPU);
    double trained = 0;
    for (const auto& unit : model.units()) trained += static_cast<double>(unit->plan().trained_numel());
    const SampleFlops whole = model.model().flops_per_sample(kSample);
    const double of_weights = 2 * 8 * trained;
    EXPECT_NEAR(flops_per_sample(model, kSample), 2.0 / 3 * whole.matrices + of_weights + whole.attention,
                1e-6)
        << tied;
  }
}

}  // namespace
}  // namespace echelon
