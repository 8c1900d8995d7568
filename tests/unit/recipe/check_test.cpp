#include "recipe/check.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "base/error.h"
#include "recipe/load.h"

namespace echelon {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string refusal(std::int64_t global, std::int64_t micro, int ranks) {
  Recipe recipe;
  recipe.train.global_batch_size = global;
  recipe.train.micro_batch_size = micro;
  try {
    validate_for_size(recipe, ranks);
  } catch (const Error& error) {
    return error.code() == Code::kUsage ? error.what() : "wrong code";
  }
  return "accepted";
}

TEST(ValidateForSize, TakesEveryMultipleOfMicroBatchTimesRanks) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (std::int64_t micro = 1; micro <= 4; ++micro) {
      for (std::int64_t global = 1; global <= 60; ++global) {
        EXPECT_EQ(refusal(global, micro, ranks) == "accepted", global % (micro * ranks) == 0)
            << global << " " << micro << " " << ranks;
      }
    }
  }
}

TEST(ValidateForSize, NamesTheTwoNearestThatWork) {
  EXPECT_EQ(refusal(50, 8, 3),
            "train.global_batch_size is 50; with 3 ranks expected a multiple of train.micro_batch_size x "
            "ranks (8 x 3 = 24): "
            "set train.global_batch_size to 48 or 72");
  EXPECT_NE(refusal(16, 8, 3).find("to 24 or 48"), std::string::npos);
  EXPECT_NE(refusal(10, 4, 1).find("with 1 rank expected"), std::string::npos);
}

TEST(ValidateForSize, RefusesNoRanksAndOverflow) {
  EXPECT_NE(refusal(8, 1, 0).find("expected at least 1"), std::string::npos);
  EXPECT_NE(refusal(8, kMax, 2).find("is not a batch size"), std::string::npos);
  EXPECT_NE(refusal(8, 0, 2).find("is not a batch size"), std::string::npos);
}

/// The refusal of a mesh, with a batch that fits.
std::string mesh_refusal(const std::string& strategy, std::int64_t shard, std::int64_t replicate,
                         std::int64_t reshard, int ranks) {
  Recipe recipe;
  recipe.train.global_batch_size = ranks;
  recipe.shard.strategy = strategy;
  recipe.shard.mesh = {.shard = shard, .replicate = replicate};
  recipe.shard.reshard_after_forward = reshard;
  try {
    validate_for_size(recipe, ranks);
  } catch (const Error& error) {
    return error.code() == Code::kUsage ? error.what() : "wrong code";
  }
  return "accepted";
}

TEST(ValidateForSize, TakesEveryMeshWhoseProductIsTheRanks) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (std::int64_t shard = 0; shard <= 13; ++shard) {
      for (std::int64_t replicate = 0; replicate <= 13; ++replicate) {
        const bool fits = shard == 0       ? replicate == 0 || ranks % replicate == 0
                          : replicate == 0 ? ranks % shard == 0
                                           : shard * replicate == ranks;
        EXPECT_EQ(mesh_refusal("hybrid_shard", shard, replicate, 1, ranks) == "accepted", fits)
            << shard << " " << replicate << " " << ranks;
      }
    }
  }
}

TEST(ValidateForSize, NamesTheMeshesThatWork) {
  EXPECT_EQ(
      mesh_refusal("hybrid_shard", 4, 0, 1, 6),
      "shard.mesh.shard is 4; with 6 ranks expected a divisor of it: 1, 2, 3, 6; or start 4 or 8 ranks");
  EXPECT_EQ(mesh_refusal("hybrid_grad_op", 0, 4, 1, 1),
            "shard.mesh.replicate is 4; with 1 rank expected a divisor of it: 1; or start 4 or 8 ranks");
  EXPECT_EQ(mesh_refusal("hybrid_shard", 2, 2, 1, 8),
            "shard.mesh.shard x shard.mesh.replicate is 2 x 2; expected the number of ranks (8): set "
            "shard.mesh.replicate to 4, shard.mesh.shard to 4, or start 4 ranks");
}

TEST(ValidateForSize, LetsBackwardGatherAmongADivisorOfTheGroup) {
  for (const auto& [strategy, shard, replicate, group] :
       std::vector<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>>{
           {"full_shard", 0, 0, 12}, {"hybrid_shard", 4, 0, 4}, {"hybrid_shard", 0, 2, 6}}) {
    for (std::int64_t kept = 2; kept <= 13; ++kept) {
      EXPECT_EQ(mesh_refusal(strategy, shard, replicate, kept, 12) == "accepted", group % kept == 0)
          << strategy << " " << kept;
    }
  }
  EXPECT_EQ(
      mesh_refusal("full_shard", 0, 0, 4, 6),
      "shard.reshard_after_forward is 4; expected true, false, or a divisor of the ranks that share one copy "
      "of the state (6): 1, 2, 3, 6");
  EXPECT_EQ(mesh_refusal("hybrid_shard", 0, 0, 5, 6), "accepted") << "the ranks of a node are not known";
}

TEST(ValidateForSize, ReportsBatchAndMeshTogether) {
  Recipe recipe;
  recipe.train.global_batch_size = 7;
  recipe.shard.strategy = "hybrid_shard";
  recipe.shard.mesh.shard = 4;
  try {
    validate_for_size(recipe, 6);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("train.global_batch_size is 7"), std::string::npos);
    EXPECT_NE(message.find("\nshard.mesh.shard is 4"), std::string::npos);
  }
}

TEST(ParameterCount, IsThatOfTheWeightsAddedUp) {
  ModelOptions model;
  model.vocab_size = 11;
  model.hidden_size = 8;
  model.intermediate_size = 20;
  model.layers = 3;
  model.heads = 4;
  model.kv_heads = 2;
  const std::int64_t query_and_output = 2 * 8 * 8;
  const std::int64_t key_and_value = 2 * 8 * 4;
  const std::int64_t gate_up_down = 3 * 8 * 20;
  const std::int64_t layer = query_and_output + key_and_value + gate_up_down + 2 * 8;
  EXPECT_EQ(recipe::parameter_count(model), 3 * layer + 8 + 2 * 11 * 8);
  model.tie_embeddings = true;
  EXPECT_EQ(recipe::parameter_count(model), 3 * layer + 8 + 11 * 8);
}

TEST(ParameterCount, OfTheDefaultsIsThePublishedModels) {
  EXPECT_EQ(recipe::parameter_count(ModelOptions()), 179'448'576);
}

TEST(ParameterCount, IsNothingRatherThanWrapped) {
  ModelOptions model;
  model.layers = kMax / 2;
  EXPECT_EQ(recipe::parameter_count(model), std::nullopt);
  model.layers = 1;
  model.intermediate_size = kMax / 3;
  EXPECT_EQ(recipe::parameter_count(model), std::nullopt);
}

TEST(Conflicts, AreNoneInASoundRecipe) {
  Recipe recipe;
  recipe.data.kind = "synthetic_tokens";
  EXPECT_TRUE(recipe::conflicts(recipe).empty());
}

TEST(Conflicts, SayWhichKeysAreInvolvedTheOneToChangeFirst) {
  Recipe recipe;
  recipe.data.path = "a.tok";
  recipe.schedule.warmup_steps = recipe.train.steps + 1;
  const auto found = recipe::conflicts(recipe);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].keys, (std::vector<std::string>{"schedule.warmup_steps", "train.steps"}));
}

TEST(Conflicts, ShowNumbersThatDifferAsDifferent) {
  Recipe recipe;
  recipe.data.path = "a.tok";
  recipe.optim.lr = 1e-3;
  recipe.schedule.min_lr = 1.00000001e-3;
  const auto found = recipe::conflicts(recipe);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].text.find("schedule.min_lr is 0.00100000001;"), std::string::npos) << found[0].text;
}

TEST(Conflicts, ReportSizesBeyondTheLimitAndNeverOverflow) {
  Recipe recipe;
  recipe.data.path = "a.tok";
  recipe.model.layers = 10'000;
  recipe.model.intermediate_size = 16'777'216;
  recipe.train.steps = 1'000'000'000'000;
  recipe.train.global_batch_size = 1'000'000'000;
  const auto found = recipe::conflicts(recipe);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[0].text.find("at most 10,000,000,000,000 are accepted"), std::string::npos);
  EXPECT_NE(found[1].text.find("is more than 2^63 tokens"), std::string::npos);
}

}  // namespace
}  // namespace echelon
