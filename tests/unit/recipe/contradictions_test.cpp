#include "recipe/check/contradictions.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "recipe_support.h"
#include "support/matches.h"

namespace echelon {
namespace {

/// Overrides that are sound except for one contradiction, and one more override that ends it. `said`: how its
/// message begins; the whole of it where tests/golden/recipe/contradictions.txt does not have it.
struct Contradiction {
  std::vector<std::string> overrides;
  std::string said;
  std::string remedy;
};

/// A value that the key which `remedy` sets makes meaningless.
Contradiction unused(const std::string& value, const std::string& remedy) {
  const std::size_t end = value.find('=');
  const std::string chooser = remedy.substr(0, remedy.find('='));
  return {
      {value}, str(value.substr(0, end), " is ", value.substr(end + 1), ", which ", chooser, ": "), remedy};
}

std::vector<Contradiction> keys_without_use() {
  return {unused("shard.mesh.shard=2", "shard.strategy=hybrid_shard"),
          unused("shard.mesh.replicate=2", "shard.strategy=hybrid_shard"),
          {{"cluster.shrink=allow"},
           "cluster.shrink is allow, which shard.strategy: full_shard does not use; remove it, or set "
           "shard.strategy: no_shard or hybrid_shard or hybrid_grad_op",
           "shard.strategy=no_shard"},
          {{"shard.reshard_overrides={lm_head: true}", "shard.strategy=shard_optimizer"},
           "shard.reshard_overrides is {lm_head: true}, which shard.strategy: shard_optimizer does not use; ",
           "shard.strategy=hybrid_grad_op"},
          {{"schedule.kind=sequence", "schedule.sequence=[linear_warmup 5, cosine]", "schedule.gamma=0.5"},
           "schedule.gamma is 0.5, which no phase of schedule.sequence uses; remove it, or add a phase of "
           "kind step",
           "schedule.sequence=[linear_warmup 5, step]"},
          unused("shard.wrap.min_params=5", "shard.wrap.policy=size_based"),
          unused("shard.wrap.exclude=[a]", "shard.wrap.policy=size_based"),
          unused("shard.wrap.modules=[a]", "shard.wrap.policy=modules"),
          unused("activation_checkpointing.every_n=3", "activation_checkpointing.policy=every_n"),
          unused("activation_checkpointing.modules=[a]", "activation_checkpointing.policy=full"),
          unused("activation_checkpointing.offload=true", "activation_checkpointing.policy=full"),
          unused("optim.momentum=0.5", "optim.kind=sgd"),
          unused("optim.rho=0.5", "optim.kind=adadelta"),
          unused("optim.momentum_dtype=fp32", "optim.kind=anyprecision_adamw"),
          unused("optim.variance_dtype=fp32", "optim.kind=anyprecision_adamw"),
          unused("optim.compensation_dtype=fp32", "optim.kind=anyprecision_adamw"),
          unused("optim.kahan=false", "optim.kind=anyprecision_adamw"),
          unused("schedule.step_size=5", "schedule.kind=step"),
          unused("schedule.gamma=0.5", "schedule.kind=step"),
          unused("schedule.decay_steps=5", "schedule.kind=warmup_stable_decay"),
          unused("schedule.sequence=[cosine]", "schedule.kind=sequence"),
          unused("train.max_skipped_steps=5", "train.non_finite=skip"),
          {{"activation_checkpointing.offload=true", "activation_checkpointing.policy=selective"},
           "activation_checkpointing.offload is true, which activation_checkpointing.policy: selective",
           "activation_checkpointing.policy=every_n"},
          {{"optim.nesterov=true", "optim.momentum=0.0"},
           "optim.nesterov is true, which optim.kind: adamw",
           "optim.nesterov=false"},
          {{"optim.kind=anyprecision_adamw", "optim.kahan=false", "optim.compensation_dtype=fp32"},
           "optim.compensation_dtype is fp32, which optim.kahan: false",
           "optim.kahan=true"}};
}

std::vector<Contradiction> sharding() {
  return {{{"shard.reshard_after_forward=2", "shard.strategy=shard_grad_op"},
           "shard.reshard_after_forward is 2, which shard.strategy: shard_grad_op",
           "shard.strategy=hybrid_shard"},
          {{"shard.wrap.policy=modules"}, "shard.wrap.modules is empty", "shard.wrap.modules=[a]"},
          {{"shard.offload=cpu", "shard.strategy=no_shard"},
           "shard.offload is cpu, but shard.strategy: no_shard",
           "shard.strategy=shard_optimizer"}};
}

std::vector<Contradiction> precision() {
  return {
      {{"precision.loss_scale=2"},
       "precision.loss_scale is 2.0, which only fp16 uses, and nothing is fp16 (precision.preset is none)",
       "precision.preset=fp16"},
      {{"precision.loss_scale_growth_steps=5", "precision.overrides={lm_head: bf16}", "precision.param=bf16"},
       "precision.loss_scale_growth_steps is 5, which only fp16 uses, and nothing is fp16 (precision.param "
       "is bf16); remove it, or set precision.param: fp16",
       "precision.param=fp16"},
      {{"precision.preset=fp16", "precision.param=fp32", "precision.reduce=fp32", "precision.buffer=fp32"},
       "precision.preset is fp16, of which no type is left; set precision.param to unset, or remove "
       "precision.preset",
       "precision.param=unset"},
      {{"precision.master=bf16"}, "precision.master is bf16: ", "optim.kind=anyprecision_adamw"},
      {{"precision.preset=bf16_pure", "optim.kind=sgd"},
       "precision.preset is bf16_pure: ",
       "precision.master=fp32"},
      {{"precision.preset=bf16_pure", "optim.kind=anyprecision_adamw", "optim.ema_decay=0.5"},
       "optim.ema_decay is 0.5, but precision.preset is bf16_pure",
       "optim.ema_decay=0"}};
}

std::vector<Contradiction> steps() {
  return {{{"checkpoint.keep_best=true"},
           "checkpoint.keep_best is true, but nothing says which step is the best; set "
           "train.validate_every_steps, train.validate_every_epochs or evaluation.best",
           "checkpoint.keep_best=false"},
          {{"evaluation.limit=5"},
           "evaluation.limit is 5, but evaluation.tasks names no task; remove it, or add one",
           "evaluation.limit=0"},
          {{"optim.kind=sgd", "optim.nesterov=true"}, "optim.nesterov is true, but", "optim.momentum=0.9"},
          {{"train.clip_grad_value=0.5"}, "train.clip_grad_value is 0.5 and", "train.clip_grad_norm=0"},
          {{"schedule.kind=warmup_stable_decay", "schedule.warmup_steps=50", "schedule.decay_steps=51",
            "train.steps=100"},
           "schedule.warmup_steps + schedule.decay_steps is 50 + 51",
           "train.steps=101"},
          {{"schedule.kind=sequence"}, "schedule.sequence is empty", "schedule.sequence=[cosine]"},
          {{"schedule.kind=sequence", "train.steps=100", "schedule.sequence=[constant 50, cosine 51]"},
           "the phases of schedule.sequence take 101 steps",
           "train.steps=101"},
          {{"schedule.kind=sequence", "train.steps=100", "schedule.sequence=[constant 50, cosine 49]"},
           "the phases of schedule.sequence take 99 steps",
           "schedule.sequence=[constant 50, cosine]"},
          {{"schedule.kind=sequence", "train.steps=100", "schedule.sequence=[constant 100, cosine]"},
           "the phases of schedule.sequence before the last take 100 steps",
           "train.steps=101"}};
}

TEST(Contradictions, AreReportedAloneAndEndedByTheirRemedies) {
  for (const std::vector<Contradiction>& some : {keys_without_use(), sharding(), precision(), steps()}) {
    for (const Contradiction& one : some) {
      const std::string message = test::refusal(test::kSynthetic, one.overrides);
      EXPECT_MENTIONS(message, ": " + one.said);
      EXPECT_FALSE(test::mentions(message, "\n"));
      std::vector<std::string> sound = one.overrides;
      sound.push_back(one.remedy);
      EXPECT_EQ(test::refusal(test::kSynthetic, sound), "accepted") << one.said;
    }
  }
}

TEST(Contradictions, OfAKeyWithoutUseAreToldBesideThoseOfItsValue) {
  const std::string unused =
      ", which schedule.kind: constant does not use; remove it, or set schedule.kind: ";
  const std::string message = test::refusal(
      test::kSynthetic, {"schedule.kind=constant", "schedule.warmup_steps=5000", "schedule.min_lr=1"});
  EXPECT_MENTIONS(message, "schedule.warmup_steps is 5000; expected at most train.steps",
                  "schedule.min_lr is 1.0; expected at most optim.lr");
  EXPECT_MENTIONS(message, "schedule.warmup_steps is 5000" + unused, "schedule.min_lr is 1.0" + unused);
}

TEST(Contradictions, ALossScaleIsUsedByWhateverIsFp16) {
  for (const char* fp16 : {"precision.preset=fp16", "precision.param=fp16", "precision.reduce=fp16",
                           "precision.output=fp16", "precision.overrides={\"*self_attn\": fp16}"}) {
    EXPECT_EQ(test::refusal(test::kSynthetic, {"precision.loss_scale=2", fp16}), "accepted") << fp16;
  }
  EXPECT_EQ(test::refusal(test::kSynthetic,
                          {"precision.loss_scale=2", "precision.preset=fp16", "precision.param=bf16"}),
            "accepted")
      << "gradients still travel as fp16";
}

TEST(Contradictions, AreNotSeenInDefaultsOfUnusedKeys) {
  recipe::Conflicts found;
  recipe::find_contradictions(Recipe(), found);
  EXPECT_TRUE(found.all.empty());
}

TEST(Contradictions, SayHowToUnsetWhatStandsInAnotherText) {
  const std::string unset = " to unset it from here, set ";
  const std::string steps = str("train: {steps: 500}\n", test::kSynthetic);
  EXPECT_MENTIONS(test::refusal(steps, {"train.epochs=3"}), "remove train.steps, ",
                  str("; train.steps stands in r.yaml:1:16:", unset, "'train.steps=1000', its default"));
  EXPECT_EQ(test::refusal(steps, {"train.epochs=3", "train.steps=1000"}), "accepted");
  const std::string path = "data: {kind: tokens, path: a.tok}\n";
  EXPECT_MENTIONS(test::refusal(path, {"data.mixture={b.tok: 1}"}),
                  str(unset, "'data.path=\"\"', its default"));
  EXPECT_EQ(test::refusal(path, {"data.mixture={b.tok: 1}", "data.path=\"\""}), "accepted");
  EXPECT_FALSE(test::mentions(test::refusal("train: {steps: 5, epochs: 3}\n"), unset)) << "removed there";
  EXPECT_FALSE(test::mentions(
      test::refusal("shard: {strategy: no_shard}\n", {"data.kind=synthetic_tokens", "shard.mesh.shard=2"}),
      unset));
  EXPECT_FALSE(test::mentions(test::refusal(test::kSynthetic, {"train.steps=5", "train.epochs=3"}), unset));
}

TEST(Contradictions, ShowLongListsAsSet) {
  const std::string message =
      test::refusal(test::kSynthetic, {"shard.wrap.modules=[" + std::string(100, 'a') + "]"});
  EXPECT_MENTIONS(message, "shard.wrap.modules is set, which");
}

}  // namespace
}  // namespace echelon
