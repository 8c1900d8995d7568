#include "recipe/check/check.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "base/error.h"
#include "base/str.h"
#include "recipe/check/contradictions.h"
#include "recipe/load.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string refusal(std::int64_t global, std::int64_t micro, int ranks) {
  const Recipe recipe{.train = {.micro_batch_size = micro, .global_batch_size = global}};
  return test::refusal(Code::kUsage, [&] { validate_for_size(recipe, ranks); });
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
  EXPECT_MENTIONS(refusal(16, 8, 3), "to 24 or 48");
  EXPECT_MENTIONS(refusal(10, 4, 1), "with 1 rank expected");
}

TEST(ValidateForSize, RefusesNoRanksAndOverflow) {
  EXPECT_MENTIONS(refusal(8, 1, 0), "expected at least 1");
  EXPECT_MENTIONS(refusal(8, kMax, 2), "is not a batch size");
  EXPECT_MENTIONS(refusal(8, 0, 2), "is not a batch size");
}

/// The refusal of a mesh, with a batch that fits.
std::string mesh_refusal(ShardStrategy strategy, std::int64_t shard, std::int64_t replicate,
                         std::int64_t reshard, int ranks) {
  const Recipe recipe{.shard = {.strategy = strategy,
                                .mesh = {.shard = shard, .replicate = replicate},
                                .reshard_after_forward = {.count = reshard}},
                      .train = {.global_batch_size = ranks}};
  return test::refusal(Code::kUsage, [&] { validate_for_size(recipe, ranks); });
}

TEST(ValidateForSize, TakesEveryMeshWhoseProductIsTheRanks) {
  for (int ranks = 1; ranks <= 12; ++ranks) {
    for (std::int64_t shard = 0; shard <= 13; ++shard) {
      for (std::int64_t replicate = 0; replicate <= 13; ++replicate) {
        const bool fits = shard == 0       ? replicate == 0 || ranks % replicate == 0
                          : replicate == 0 ? ranks % shard == 0
                                           : shard * replicate == ranks;
        EXPECT_EQ(mesh_refusal(ShardStrategy::kHybridShard, shard, replicate, 1, ranks) == "accepted", fits)
            << shard << " " << replicate << " " << ranks;
      }
    }
  }
}

TEST(ValidateForSize, NamesTheMeshesThatWork) {
  EXPECT_EQ(
      mesh_refusal(ShardStrategy::kHybridShard, 4, 0, 1, 6),
      "shard.mesh.shard is 4; with 6 ranks expected a divisor of it: 1, 2, 3, 6; or start 4 or 8 ranks");
  EXPECT_EQ(mesh_refusal(ShardStrategy::kHybridGradOp, 0, 4, 1, 1),
            "shard.mesh.replicate is 4; with 1 rank expected a divisor of it: 1; or start 4 or 8 ranks");
  EXPECT_EQ(mesh_refusal(ShardStrategy::kHybridShard, 2, 2, 1, 8),
            "shard.mesh.shard x shard.mesh.replicate is 2 x 2; expected the number of ranks (8): set "
            "shard.mesh.replicate to 4, shard.mesh.shard to 4, or start 4 ranks");
}

TEST(ValidateForSize, LetsBackwardGatherAmongADivisorOfTheGroup) {
  for (const auto& [strategy, shard, replicate, group] :
       std::vector<std::tuple<ShardStrategy, std::int64_t, std::int64_t, std::int64_t>>{
           {ShardStrategy::kFullShard, 0, 0, 12},
           {ShardStrategy::kHybridShard, 4, 0, 4},
           {ShardStrategy::kHybridShard, 0, 2, 6}}) {
    for (std::int64_t kept = 2; kept <= 13; ++kept) {
      EXPECT_EQ(mesh_refusal(strategy, shard, replicate, kept, 12) == "accepted", group % kept == 0)
          << word_of(strategy) << " " << kept;
    }
  }
  EXPECT_EQ(
      mesh_refusal(ShardStrategy::kFullShard, 0, 0, 4, 6),
      "shard.reshard_after_forward is 4; expected true, false, or a divisor of the ranks that share one copy "
      "of the state (6): 1, 2, 3, 6");
  EXPECT_EQ(mesh_refusal(ShardStrategy::kHybridShard, 0, 0, 5, 6), "accepted")
      << "the ranks of a node are not known";
}

TEST(ValidateForSize, ReportsBatchAndMeshTogether) {
  const Recipe recipe{.shard = {.strategy = ShardStrategy::kHybridShard, .mesh = {.shard = 4}},
                      .train = {.global_batch_size = 7}};
  const std::string message = test::refusal(Code::kUsage, [&] { validate_for_size(recipe, 6); });
  EXPECT_MENTIONS(message, "train.global_batch_size is 7", "\nshard.mesh.shard is 4");
}

/// What is wrong with the sizes of a model.
std::vector<std::string> model_faults(const ModelOptions& model) {
  recipe::Conflicts found;
  recipe::find_model_conflicts(model, found);
  return mapped(found.all, &recipe::Conflict::text);
}

TEST(ModelConflicts, AreJudgedByKind) {
  using Texts = std::vector<std::string>;
  const ModelOptions odd{.hidden_size = 21, .heads = 3, .kv_heads = 3};
  EXPECT_EQ(model_faults(odd).size(), 1u) << "rotary positions rotate pairs";
  for (const ModelKind kind : {ModelKind::kGpt2, ModelKind::kT5, ModelKind::kVit, ModelKind::kDeepVit}) {
    ModelOptions model = odd;
    model.kind = kind;
    EXPECT_EQ(model_faults(model), Texts{}) << word_of(kind);
    model.hidden_size = 20;
    EXPECT_EQ(model_faults(model),
              Texts{"model.hidden_size is 20; expected a multiple of model.heads (3), such as 18 or 21"})
        << word_of(kind);
  }
  EXPECT_EQ(model_faults({.kind = ModelKind::kT5, .hidden_size = 20, .heads = 3, .head_size = 5}), Texts{});
  ModelOptions part{.kind = ModelKind::kGptNeoX, .hidden_size = 60, .heads = 3};
  for (const auto& [factor, pairs] : {std::pair(0.3, true), {0.5, true}, {0.36, false}, {0.04, false}}) {
    part.partial_rotary_factor = factor;
    EXPECT_EQ(model_faults(part).empty(), pairs) << factor;
  }
  EXPECT_EQ(model_faults({.kind = ModelKind::kCnn, .hidden_size = 20, .heads = 3}), Texts{})
      << "it has no heads";
}

TEST(ModelConflicts, NameBucketsPatchesAndImagesThatLeaveNothing) {
  const auto one = [](const ModelOptions& model) {
    const auto faults = model_faults(model);
    return faults.size() == 1 ? faults[0] : std::to_string(faults.size()) + " faults";
  };
  EXPECT_MENTIONS(one({.kind = ModelKind::kT5, .relative_buckets = 33}), "an even number of at least 4");
  EXPECT_MENTIONS(one({.kind = ModelKind::kT5, .relative_buckets = 2}), "an even number of at least 4");
  EXPECT_MENTIONS(one({.kind = ModelKind::kT5, .relative_max_distance = 16}),
                  "more than half of model.relative_buckets (32)");
  EXPECT_EQ(model_faults({.kind = ModelKind::kT5, .relative_max_distance = 17}).size(), 0u);
  EXPECT_EQ(one({.kind = ModelKind::kVit, .image_size = 28, .patch_size = 16}),
            "model.patch_size is 16; expected a divisor of model.image_size (28): 1, 2, 4, 7, 14, 28");
  EXPECT_MENTIONS(one({.kind = ModelKind::kCnn, .image_size = 5}), "expected at least 6");
  EXPECT_EQ(model_faults({.kind = ModelKind::kCnn, .image_size = 6}).size(), 0u);
}

TEST(ModelConflicts, ReportTooManyParametersOfEveryKind) {
  for (const ModelKind kind :
       {ModelKind::kLlama, ModelKind::kGpt2, ModelKind::kT5, ModelKind::kVit, ModelKind::kDeepVit}) {
    const auto faults = model_faults({.kind = kind, .hidden_size = 768 * 1024, .layers = 10'000});
    ASSERT_EQ(faults.size(), 1u) << word_of(kind);
    EXPECT_MENTIONS(faults[0], "at most 10,000,000,000,000 are accepted") << word_of(kind);
  }
}

/// The conflicts of a Llama, or another model, on some data.
std::vector<std::string> data_conflicts(const DataOptions& data, ModelKind model = ModelKind::kLlama) {
  std::vector<std::string> messages;
  for (const auto& conflict : recipe::conflicts({.model = {.kind = model}, .data = data})) {
    if (conflict.keys.front().starts_with("data.")) messages.push_back(conflict.text);
  }
  return messages;
}

TEST(DataConflicts, DemandOneSourceOfTheKindThatTheModelTakes) {
  using Messages = std::vector<std::string>;
  EXPECT_EQ(data_conflicts({.kind = DataKind::kPairs, .path = "p.tok"}, ModelKind::kT5), Messages{});
  EXPECT_EQ(data_conflicts({.mixture = {{"a.tok", 1}}}), Messages{});
  EXPECT_EQ(
      data_conflicts({.kind = DataKind::kPairs, .path = "p.tok"}),
      Messages{
          "data.kind is pairs; model.kind: llama trains on tokens, chat, preference or synthetic_tokens"});
  EXPECT_EQ(data_conflicts({.kind = DataKind::kSyntheticTokens}, ModelKind::kT5),
            Messages{"data.kind is synthetic_tokens; model.kind: t5 trains on pairs or synthetic_pairs"});
  EXPECT_EQ(data_conflicts({.path = "b.tok", .mixture = {{"a.tok", 1}}}),
            Messages{"data.mixture and data.path are both given; training reads one of them: add the file of "
                     "data.path to data.mixture, or remove one"});
  EXPECT_EQ(
      data_conflicts({.kind = DataKind::kPairs}, ModelKind::kT5),
      Messages{
          "data.path is missing; data.kind: pairs reads a token file: make one with `echelon prepare` and "
          "name it here, or set data.kind: synthetic_pairs"});
  EXPECT_EQ(
      data_conflicts({.path = "a.tok", .target_len = 7}),
      Messages{
          "data.target_len is 7, which data.kind: tokens does not use; remove it, or set data.kind: pairs "
          "or synthetic_pairs"});
}

TEST(Conflicts, AreNoneInASoundRecipe) {
  EXPECT_TRUE(recipe::conflicts({.data = {.kind = DataKind::kSyntheticTokens}}).empty());
}

TEST(Conflicts, SayWhichKeysAreInvolvedTheOneToChangeFirst) {
  const auto found =
      recipe::conflicts({.data = {.path = "a.tok"}, .schedule = {.warmup_steps = TrainOptions().steps + 1}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].keys, (std::vector<std::string>{"schedule.warmup_steps", "train.steps"}));
}

TEST(Conflicts, ShowNumbersThatDifferAsDifferent) {
  const auto found = recipe::conflicts(
      {.data = {.path = "a.tok"}, .optim = {.lr = 1e-3}, .schedule = {.min_lr = 1.00000001e-3}});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_MENTIONS(found[0].text, "schedule.min_lr is 0.00100000001;");
}

TEST(Conflicts, ReportSizesBeyondTheLimitAndNeverOverflow) {
  const auto found =
      recipe::conflicts({.model = {.intermediate_size = 16'777'216, .layers = 10'000},
                         .data = {.path = "a.tok"},
                         .train = {.steps = 1'000'000'000'000, .global_batch_size = 1'000'000'000}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_MENTIONS(found[0].text, "at most 10,000,000,000,000 are accepted");
  EXPECT_MENTIONS(found[1].text, "is more than 2^63 tokens");
}

}  // namespace
}  // namespace echelon
