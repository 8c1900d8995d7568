#include "recipe/check/contradictions.h"

#include <gtest/gtest.h>

#include "recipe_support.h"
#include "support/matches.h"

namespace echelon {
namespace {

/// Overrides that are sound except for one contradiction, its message, and one more override that ends it.
struct Contradiction {
  std::vector<std::string> overrides;
  std::string message;
  std::string remedy;
};

/// "key is VALUE, which CHOOSER: CHOSEN does not use; remove it, or set CHOOSER: NEEDED".
Contradiction unused(const std::string& key, const std::string& value, const std::string& chooser,
                     const std::string& chosen, const std::string& needed) {
  return {{key + "=" + value},
          key + " is " + value + ", which " + chooser + ": " + chosen + " does not use; remove it, or set " +
              chooser + ": " + needed,
          chooser + "=" + needed.substr(0, needed.find(' '))};
}

std::vector<Contradiction> keys_without_use() {
  const std::string hybrid = "hybrid_shard or hybrid_grad_op";
  const std::string policy = "activation_checkpointing.policy";
  const std::string precise = "anyprecision_adamw";
  return {
      unused("shard.mesh.shard", "2", "shard.strategy", "full_shard", hybrid),
      unused("shard.mesh.replicate", "2", "shard.strategy", "full_shard", hybrid),
      unused("cluster.shrink", "allow", "shard.strategy", "full_shard", "no_shard or " + hybrid),
      unused("shard.wrap.min_params", "5", "shard.wrap.policy", "transformer", "size_based"),
      unused("shard.wrap.exclude", "[a]", "shard.wrap.policy", "transformer", "size_based"),
      unused("shard.wrap.modules", "[a]", "shard.wrap.policy", "transformer", "modules"),
      unused("activation_checkpointing.every_n", "3", policy, "none", "every_n"),
      unused("activation_checkpointing.modules", "[a]", policy, "none", "full or every_n or selective"),
      unused("activation_checkpointing.offload", "true", policy, "none", "full or every_n"),
      unused("optim.momentum", "0.5", "optim.kind", "adamw", "sgd"),
      unused("optim.rho", "0.5", "optim.kind", "adamw", "adadelta"),
      unused("optim.momentum_dtype", "fp32", "optim.kind", "adamw", precise),
      unused("optim.variance_dtype", "fp32", "optim.kind", "adamw", precise),
      unused("optim.compensation_dtype", "fp32", "optim.kind", "adamw", precise),
      unused("optim.kahan", "false", "optim.kind", "adamw", precise),
      unused("schedule.step_size", "5", "schedule.kind", "warmup_cosine", "step or sequence"),
      unused("schedule.gamma", "0.5", "schedule.kind", "warmup_cosine", "step or sequence"),
      unused("schedule.decay_steps", "5", "schedule.kind", "warmup_cosine", "warmup_stable_decay"),
      unused("schedule.sequence", "[cosine]", "schedule.kind", "warmup_cosine", "sequence"),
      unused("train.max_skipped_steps", "5", "train.non_finite", "stop", "skip"),
      {{"activation_checkpointing.offload=true", "activation_checkpointing.policy=selective"},
       "activation_checkpointing.offload is true, which activation_checkpointing.policy: selective does not "
       "use; remove it, or set activation_checkpointing.policy: full or every_n",
       "activation_checkpointing.policy=every_n"},
      {{"optim.nesterov=true", "optim.momentum=0.0"},
       "optim.nesterov is true, which optim.kind: adamw does not use; remove it, or set optim.kind: sgd",
       "optim.nesterov=false"},
      {{"optim.kind=anyprecision_adamw", "optim.kahan=false", "optim.compensation_dtype=fp32"},
       "optim.compensation_dtype is fp32, which optim.kahan: false does not use; remove it, or set "
       "optim.kahan: true",
       "optim.kahan=true"}};
}

std::vector<Contradiction> sharding() {
  return {{{"shard.reshard_after_forward=2", "shard.strategy=shard_grad_op"},
           "shard.reshard_after_forward is 2, which shard.strategy: shard_grad_op does not use; set it to "
           "true or "
           "false, or set shard.strategy: full_shard or hybrid_shard",
           "shard.strategy=hybrid_shard"},
          {{"shard.wrap.policy=modules"},
           "shard.wrap.modules is empty; shard.wrap.policy: modules needs the patterns of the modules that "
           "become "
           "units, such as [\"model.layers.*\"]",
           "shard.wrap.modules=[a]"},
          {{"shard.offload=cpu", "shard.strategy=no_shard"},
           "shard.offload is cpu, but shard.strategy: no_shard has no parts to keep in host memory; set "
           "shard.offload: none, or a strategy that splits state, such as full_shard",
           "shard.strategy=shard_optimizer"}};
}

std::vector<Contradiction> precision() {
  return {
      {{"precision.loss_scale=2"},
       "precision.loss_scale is 2.0, which only fp16 uses, and nothing is fp16 (precision.preset is none); "
       "remove it, or set precision.param: fp16",
       "precision.preset=fp16"},
      {{"precision.loss_scale_growth_steps=5", "precision.overrides={lm_head: bf16}", "precision.param=bf16"},
       "precision.loss_scale_growth_steps is 5, which only fp16 uses, and nothing is fp16 (precision.param "
       "is "
       "bf16); remove it, or set precision.param: fp16",
       "precision.param=fp16"},
      {{"precision.preset=fp16", "precision.param=fp32", "precision.reduce=fp32", "precision.buffer=fp32"},
       "precision.preset is fp16, of which no type is left; set precision.param to unset, or remove "
       "precision.preset",
       "precision.param=unset"},
      {{"precision.master=bf16"},
       "precision.master is bf16: bf16 master weights, in which optim.kind: adamw loses small updates; set "
       "optim.kind: anyprecision_adamw, or precision.master: fp32",
       "optim.kind=anyprecision_adamw"},
      {{"precision.preset=bf16_pure", "optim.kind=sgd"},
       "precision.preset is bf16_pure: bf16 master weights, in which optim.kind: sgd loses small updates; "
       "set optim.kind: anyprecision_adamw, or precision.master: fp32",
       "precision.master=fp32"},
      {{"precision.preset=bf16_pure", "optim.kind=anyprecision_adamw", "optim.ema_decay=0.5"},
       "optim.ema_decay is 0.5, but precision.preset is bf16_pure: an average of bf16 master weights does "
       "not change; set optim.ema_decay: 0, or precision.master: fp32",
       "optim.ema_decay=0"}};
}

std::vector<Contradiction> steps() {
  return {
      {{"checkpoint.keep_best=true"},
       "checkpoint.keep_best is true, but nothing says which step is the best; set "
       "train.validate_every_steps, train.validate_every_epochs or evaluation.best",
       "checkpoint.keep_best=false"},
      {{"evaluation.limit=5"},
       "evaluation.limit is 5, but evaluation.tasks names no task; remove it, or add one",
       "evaluation.limit=0"},
      {{"optim.kind=sgd", "optim.nesterov=true"},
       "optim.nesterov is true, but optim.momentum is 0; set optim.momentum, such as 0.9, or "
       "optim.nesterov: false",
       "optim.momentum=0.9"},
      {{"train.clip_grad_value=0.5"},
       "train.clip_grad_value is 0.5 and train.clip_grad_norm is 1.0; gradients are clipped in one way only: "
       "set train.clip_grad_norm: 0, or remove train.clip_grad_value",
       "train.clip_grad_norm=0"},
      {{"schedule.kind=warmup_stable_decay", "schedule.warmup_steps=50", "schedule.decay_steps=51",
        "train.steps=100"},
       "schedule.warmup_steps + schedule.decay_steps is 50 + 51; expected at most train.steps (100): shorten "
       "one of them",
       "train.steps=101"},
      {{"schedule.kind=sequence"},
       "schedule.sequence is empty; schedule.kind: sequence needs its phases, such as [linear_warmup 100, "
       "constant 500, cosine]",
       "schedule.sequence=[cosine]"},
      {{"schedule.kind=sequence", "train.steps=100", "schedule.sequence=[constant 50, cosine 51]"},
       "the phases of schedule.sequence take 101 steps; expected train.steps (100): change their lengths, or "
       "leave out that of the last one, which then lasts to the end",
       "train.steps=101"},
      {{"schedule.kind=sequence", "train.steps=100", "schedule.sequence=[constant 50, cosine 49]"},
       "the phases of schedule.sequence take 99 steps; expected train.steps (100): change their lengths, or "
       "leave out that of the last one, which then lasts to the end",
       "schedule.sequence=[constant 50, cosine]"},
      {{"schedule.kind=sequence", "train.steps=100", "schedule.sequence=[constant 100, cosine]"},
       "the phases of schedule.sequence before the last take 100 steps; expected less than train.steps "
       "(100): nothing is left for the last one",
       "train.steps=101"}};
}

/// Each is reported alone, with its message, and its remedy ends it.
void expect_reported(const std::vector<Contradiction>& all) {
  for (const Contradiction& one : all) {
    const std::string message = test::refusal(test::kSynthetic, one.overrides);
    EXPECT_TRUE(message.ends_with(": " + one.message)) << "expected: " << one.message << "\ngot: " << message;
    EXPECT_FALSE(test::mentions(message, "\n"));
    std::vector<std::string> sound = one.overrides;
    sound.push_back(one.remedy);
    EXPECT_EQ(test::refusal(test::kSynthetic, sound), "accepted") << one.message;
  }
}

TEST(Contradictions, AreReportedForKeysThatAnotherKeyMakesMeaningless) {
  expect_reported(keys_without_use());
}
TEST(Contradictions, AreReportedOfSharding) {
  expect_reported(sharding());
}
TEST(Contradictions, AreReportedOfPrecision) {
  expect_reported(precision());
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
TEST(Contradictions, AreReportedOfStepsAndSchedules) {
  expect_reported(steps());
}

TEST(Contradictions, AreNotSeenInDefaultsOfUnusedKeys) {
  std::vector<recipe::Conflict> found;
  recipe::find_contradictions(Recipe(), found);
  EXPECT_TRUE(found.empty());
}

TEST(Contradictions, ShowLongListsAsSet) {
  const std::string message =
      test::refusal(test::kSynthetic, {"shard.wrap.modules=[" + std::string(100, 'a') + "]"});
  EXPECT_MENTIONS(message, "shard.wrap.modules is set, which");
}

}  // namespace
}  // namespace echelon
