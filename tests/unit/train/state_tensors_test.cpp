#include "train/state_tensors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_write.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::SmallModel;

/// The state of one rank.
struct RankState {
  RankState(const OptimOptions& options, int rank, int size)
      : small(rank, size, options),
        optim(std::make_unique<Optimizer>(options, small.model)),
        ema(make_ema(options, small.model)),
        data(make_loader({.kind = DataKind::kSyntheticTokens, .seq_len = 4}, 13, 1)),
        state{.model = small.model, .optim = *optim, .data = *data, .ema = ema.get()} {}

  /// f(purpose, slices) for everything a checkpoint holds.
  void for_each(const std::function<void(const std::string&, const std::vector<at::Tensor>&)>& f) const {
    f("weights", small.masters());
    for (const OptimizerState& s : optim->states()) f(s.name, s.slices);
    if (ema) f("ema", ema->slices());
  }

  /// SmallModel::fill() of one of these purposes.
  void fill(const std::vector<at::Tensor>& slices, const std::string& purpose) const {
    test::Held held = purpose == "weights" ? test::everything : test::trained;
    for (const OptimizerState& s : optim->states()) {
      if (s.name == purpose) held = s.holds;
    }
    small.fill(slices, purpose, held);
  }

  SmallModel small;
  std::unique_ptr<Optimizer> optim;
  std::unique_ptr<Ema> ema;
  std::unique_ptr<Loader> data;
  TrainState state;
};

/// A checkpoint of values that depend on tensor and element only, written by `size` ranks.
void save(const std::filesystem::path& checkpoints, const OptimOptions& options, int size) {
  const std::string id = checkpoint::new_save_id();
  const auto folder = checkpoints / checkpoint::step_folder_name(4, id);
  std::filesystem::create_directories(folder);
  std::vector<checkpoint::TensorInfo> tensors;
  for (int rank = 0; rank < size; ++rank) {
    const RankState mine(options, rank, size);
    mine.for_each([&](const std::string& purpose, const auto& slices) { mine.fill(slices, purpose); });
    checkpoint::write_shard(folder, rank, size, id, slices_of(mine.state));
    tensors = global_tensors(mine.state);
  }
  checkpoint::commit(folder,
                     {.step = 4, .save_id = id, .ranks = size, .tensors = tensors, .trainer_state = "{}"});
}

std::string refusal(const std::filesystem::path& folder, const OptimOptions& options) {
  return test::refusal(Code::kCheckpoint, [&] {
    require_same_model(checkpoint::Reader(folder), RankState(options, 0, 1).state);
  });
}

const OptimOptions kAdamW{.kind = OptimKind::kAdamW};
const OptimOptions kAnyPrecision{.kind = OptimKind::kAnyPrecisionAdamW, .variance_dtype = FloatType::kFp32};
const OptimOptions kSgd{.kind = OptimKind::kSgd};
const OptimOptions kMomentum{.kind = OptimKind::kSgd, .momentum = 0.9};
const OptimOptions kAdadelta{.kind = OptimKind::kAdadelta};
const OptimOptions kMuon{.kind = OptimKind::kMuon, .muon = {.adamw = {"*.k_proj.*"}}};

OptimOptions averaged(OptimOptions options) {
  options.ema_decay = 0.99;
  return options;
}

OptimOptions frozen(OptimOptions options) {
  options.lr_factors = {{"model.embed_tokens.*", 0}, {"model.layers.1.*_proj.*", 0}, {"*.mlp.up_proj.*", 0}};
  return options;
}

using StateTensors = test::InTempDir;
TEST_F(StateTensors, EveryStateComesBackOnAnyNumberOfRanks) {
  for (const OptimOptions& options :
       {kAdamW, averaged(kAdamW), kAnyPrecision, averaged(kAnyPrecision), kSgd, averaged(kMomentum),
        kAdadelta, frozen(averaged(kAnyPrecision)), kMuon, frozen(averaged(kMuon))}) {
    for (const auto& [before, after] : {std::pair(3, 2), std::pair(2, 5), std::pair(4, 1)}) {
      const test::TempDir folder;
      save(folder.path() / "c", options, before);
      const checkpoint::Reader reader(folder.path() / "c");
      for (int rank = 0; rank < after; ++rank) {
        RankState mine(options, rank, after);
        ASSERT_NO_THROW(require_same_model(reader, mine.state));
        load_slices(reader, mine.state);
        mine.for_each([&](const std::string& purpose, const std::vector<at::Tensor>& slices) {
          auto expected = mapped(slices, [](const at::Tensor& slice) { return at::empty_like(slice); });
          mine.fill(expected, purpose);
          for (std::size_t u = 0; u < slices.size(); ++u)
            EXPECT_TRUE(at::equal(slices[u], expected[u]))
                << word_of(options.kind) << " " << purpose << " unit " << u;
        });
      }
    }
  }
}

TEST_F(StateTensors, AreNamedAndTypedAsTheyAreInMemory) {
  save(dir.path() / "c", averaged(kAnyPrecision), 2);
  const checkpoint::Reader reader(dir.path() / "c");
  const std::string part = "model.layers.1.mlp.up_proj.weight";
  const auto type = [&](const std::string& name) {
    const checkpoint::TensorInfo* found = reader.find(name);
    return found == nullptr ? std::string("none") : std::string(name_of(found->dtype));
  };
  EXPECT_EQ(type("model/" + part), "fp32");
  EXPECT_EQ(type("optim/" + part + "/exp_avg"), "bf16");
  EXPECT_EQ(type("optim/" + part + "/exp_avg_sq"), "fp32");
  EXPECT_EQ(type("optim/" + part + "/compensation"), "bf16");
  EXPECT_EQ(type("ema/" + part), "fp32");
  EXPECT_EQ(reader.tensors().size() % 5, 0U);
}

TEST_F(StateTensors, WhatIsFrozenHasNothingButItsWeights) {
  save(dir.path() / "c", frozen(averaged(kAdamW)), 2);
  const checkpoint::Reader reader(dir.path() / "c");
  const auto kept = [&](const std::string& parameter) {
    std::size_t count = 0;
    for (const char* name : {"model/", "ema/"}) count += reader.find(name + parameter) != nullptr ? 1 : 0;
    for (const char* state : {"/exp_avg", "/exp_avg_sq"})
      count += reader.find("optim/" + parameter + state) != nullptr ? 1 : 0;
    return count;
  };
  EXPECT_EQ(kept("model.embed_tokens.weight"), 1U);
  EXPECT_EQ(kept("model.layers.1.self_attn.q_proj.weight"), 1U);
  EXPECT_EQ(kept("model.layers.1.input_layernorm.weight"), 4U);
  EXPECT_EQ(kept("model.layers.0.self_attn.q_proj.weight"), 4U);
}

TEST_F(StateTensors, AMatrixOfMuonHasOneState) {
  save(dir.path() / "c", frozen(kMuon), 2);
  const checkpoint::Reader reader(dir.path() / "c");
  const auto states = [&](const std::string& parameter) {
    std::string found;
    for (const char* state : {"exp_avg", "exp_avg_sq", "muon_momentum"})
      found += reader.find(str("optim/", parameter, "/", state)) != nullptr ? str(state, " ") : "";
    return found;
  };
  EXPECT_EQ(states("model.layers.0.self_attn.q_proj.weight"), "muon_momentum ");
  for (const char* name : {"model.layers.0.self_attn.k_proj.weight", "model.norm.weight", "lm_head.weight"})
    EXPECT_EQ(states(name), "exp_avg exp_avg_sq ") << name;
  EXPECT_EQ(states("model.layers.1.self_attn.q_proj.weight"), "") << "it is frozen";
}

TEST_F(StateTensors, FreezingGoesOnAndThawingSaysWhatIsMissing) {
  const OptimOptions all = averaged(kAdamW);
  save(dir.path() / "all", all, 2);
  save(dir.path() / "some", frozen(all), 2);
  EXPECT_EQ(refusal(dir.path() / "some", frozen(all)), "accepted");
  EXPECT_EQ(refusal(dir.path() / "all", frozen(all)), "accepted")
      << "states that are no longer needed are not read";
  RankState later(frozen(all), 0, 1);
  load_slices(checkpoint::Reader(dir.path() / "all"), later.state);
  later.for_each([&](const std::string& purpose, const std::vector<at::Tensor>& slices) {
    auto expected = mapped(slices, [](const at::Tensor& slice) { return at::empty_like(slice); });
    later.fill(expected, purpose);
    for (std::size_t u = 0; u < slices.size(); ++u) EXPECT_TRUE(at::equal(slices[u], expected[u])) << purpose;
  });
  const std::string error = refusal(dir.path() / "some", all);
  EXPECT_MENTIONS(error,
                  "was made while parameter 'model.embed_tokens.weight' was frozen, and has no tensor "
                  "'optim/model.embed_tokens.weight/exp_avg'",
                  "factor 0 in optim.lr_factors");
  save(dir.path() / "sgd", frozen(kSgd), 1);
  EXPECT_EQ(refusal(dir.path() / "sgd", kSgd), "accepted") << "has no state that could be missing";
}

TEST_F(StateTensors, ACheckpointOfAnotherOptimizerSaysSo) {
  const struct {
    OptimOptions made;
    OptimOptions asked;
    std::string expected;
  } cases[] = {
      {kMomentum, kAdamW,
       "was trained with optim.kind sgd (momentum_buffer fp32); this recipe has adamw (exp_avg fp32, "
       "exp_avg_sq fp32)"},
      {kSgd, kAdadelta, "was trained with optim.kind sgd (no state); this recipe has adadelta ("},
      {kAdamW, kSgd,
       "was trained with optim.kind adamw (exp_avg fp32, exp_avg_sq fp32); this recipe has sgd (no state)"},
      {kAdadelta, kMomentum,
       "was trained with optim.kind adadelta (acc_delta fp32, square_avg fp32); this recipe has sgd"},
      {kAdamW, kMuon,
       "was trained with optim.kind adamw (exp_avg fp32, exp_avg_sq fp32); this recipe has muon (exp_avg "
       "fp32, "
       "exp_avg_sq fp32, muon_momentum fp32)"},
      {kMuon, kMomentum, "was trained with optim.kind muon ("},
      {kMuon,
       {.kind = OptimKind::kMuon},
       "was made with other optim.muon.adamw: it has 'optim/model.layers.0.self_attn.k_proj.weight/exp_avg' "
       "and "
       "no 'optim/model.layers.0.self_attn.k_proj.weight/muon_momentum'"},
      {kAnyPrecision, kAdamW,
       "was trained with optim.kind anyprecision_adamw (compensation bf16, exp_avg bf16, "},
      {kAnyPrecision,
       {.kind = OptimKind::kAnyPrecisionAdamW, .variance_dtype = FloatType::kFp32, .kahan = false},
       "exp_avg_sq fp32); this recipe has anyprecision_adamw (exp_avg bf16, exp_avg_sq fp32)"},
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const auto folder = dir.path() / str(i);
    save(folder, cases[i].made, 1);
    EXPECT_EQ(refusal(folder, cases[i].made), "accepted");
    const std::string error = refusal(folder, cases[i].asked);
    EXPECT_MENTIONS(error, cases[i].expected);
  }
}

TEST_F(StateTensors, AveragedWeightsAreNeitherLostNorMadeUp) {
  save(dir.path() / "with", averaged(kAdamW), 1);
  save(dir.path() / "without", kAdamW, 1);
  EXPECT_MENTIONS(refusal(dir.path() / "with", kAdamW), "made with averaged weights");
  EXPECT_MENTIONS(refusal(dir.path() / "without", averaged(kAdamW)), "made without averaged weights");
}

}  // namespace
}  // namespace echelon
