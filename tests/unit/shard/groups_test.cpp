#include "shard/groups.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace echelon {
namespace {

ShardOptions hybrid(std::int64_t shard, std::int64_t replicate) {
  ShardOptions options;
  options.strategy = ShardStrategy::kHybridShard;
  options.mesh = {shard, replicate};
  return options;
}

TEST(Groups, SizesComeFromTheStrategyTheMeshOrTheNode) {
  EXPECT_EQ(shard_group_size({}, 8, 4), 8);
  ShardOptions copies;
  copies.strategy = ShardStrategy::kNoShard;
  EXPECT_EQ(shard_group_size(copies, 8, 4), 1);
  EXPECT_EQ(shard_group_size(hybrid(0, 0), 8, 4), 4);
  EXPECT_EQ(shard_group_size(hybrid(2, 0), 8, 4), 2);
  EXPECT_EQ(shard_group_size(hybrid(0, 4), 8, 4), 2);
  EXPECT_EQ(shard_group_size(hybrid(2, 4), 8, 4), 2);
}

TEST(Groups, SizesThatDoNotMultiplyToTheRanksAreRefused) {
  EXPECT_THROW((void)shard_group_size(hybrid(3, 0), 8, 4), Error);
  EXPECT_THROW((void)shard_group_size(hybrid(2, 2), 8, 4), Error);
  EXPECT_THROW((void)shard_group_size(hybrid(0, 3), 8, 4), Error);
  EXPECT_THROW((void)shard_group_size(hybrid(0, 16), 8, 4), Error);
  EXPECT_THROW((void)shard_group_size(hybrid(0, 0), 8, 3), Error);
}

TEST(Groups, StrategiesAreLifetimes) {
  using Weights = Strategy::Weights;
  const auto of = [](const char* name, SwitchOrCount reshard = {}) {
    ShardOptions options;
    options.strategy = choice_of<ShardStrategy>(name).value();
    options.reshard_after_forward = reshard;
    return strategy_of(options);
  };
  EXPECT_EQ(of("full_shard").weights, Weights::kLayer);
  EXPECT_EQ(of("full_shard", {false, 0}).weights, Weights::kPass);
  EXPECT_EQ(of("full_shard", {true, 4}).keep_ranks, 4);
  EXPECT_EQ(of("shard_grad_op").weights, Weights::kPass);
  EXPECT_EQ(of("shard_optimizer").weights, Weights::kStep);
  EXPECT_TRUE(of("shard_optimizer").reduce_at_end);
  EXPECT_EQ(of("no_shard").weights, Weights::kStep);
  EXPECT_EQ(of("hybrid_grad_op").weights, Weights::kPass);
}

}  // namespace
}  // namespace echelon
