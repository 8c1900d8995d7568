#include "shard/sharded_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "base/error.h"
#include "comm/local_communicator.h"
#include "model/ops/ops.h"
#include "support/small_models.h"
#include "support/unsharded.h"
#include "unit/model/tensors.h"
#include "unit/shard/alone.h"
#include "unit/shard/silent_communicator.h"

namespace echelon {
namespace {

using test::AloneOf;
using test::language_batch;
using test::lively_options;
using test::materialize;
using test::relative_error;

std::unique_ptr<Model> model_of(const ModelOptions& options) {
  return build_model(options, at::kFloat, at::kCPU);
}

at::Tensor ids_of(int seed) {
  at::manual_seed(static_cast<std::uint64_t>(seed));
  return at::randint(0, 61, {2, 21}, at::kLong);
}

/// The unsharded model with the weights of seed 9.
std::unique_ptr<Model> whole_of(const ModelOptions& options) {
  auto model = model_of(options);
  materialize(*model, 9);
  return model;
}

/// The gradients of one pass.
void run_pass(ShardedModel& model, const Batch& batch, double scale = 1.0) {
  (void)model.accumulate(batch, scale, {});
  model.finish_gradients();
}

const EngineOptions kBf16{.precision = {.preset = PrecisionPreset::kBf16Fp32Reduce}};

TEST(ShardedModel, SlicesOfAnyNumberOfRanksStartAsTheSameWeights) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (int rank = 0; rank < ranks; ++rank) {
      AloneOf comm(rank, ranks);
      const ShardedModel model(model_of(lively_options(2)), comm, {}, 9, at::kCPU);
      for (std::size_t u = 0; u < model.units().size(); ++u) {
        const Unit& unit = *model.units()[u];
        std::int64_t filled = 0;
        for (const SlicePiece& piece : unit.pieces()) {
          std::vector<float> expected(static_cast<std::size_t>(piece.end - piece.begin));
          fill_initial(*piece.part, piece.parameter->init(), 9, piece.begin, piece.end - piece.begin,
                       expected.data());
          filled = piece.at + piece.end - piece.begin;
          const at::Tensor mine = unit.master().narrow(0, piece.at, piece.end - piece.begin);
          EXPECT_TRUE(at::equal(mine, at::from_blob(expected.data(), mine.sizes(), at::kFloat)));
        }
        const at::Tensor padding = unit.master().narrow(0, filled, unit.master().numel() - filled);
        EXPECT_EQ(padding.abs().sum().item<double>(), 0.0) << "padding must stay zero";
      }
    }
  }
}

TEST(ShardedModel, TakesMemoryForItsSlicesOnly) {
  ModelOptions options{.vocab_size = 1000,
                       .hidden_size = 256,
                       .intermediate_size = 1024,
                       .layers = 24,
                       .heads = 4,
                       .kv_heads = 4,
                       .max_positions = 32};
  const int ranks = 8;
  AloneOf comm(3, ranks);
  const ShardedModel model(model_of(options), comm, kBf16, 1, at::kCPU);
  const std::int64_t numel = model.model().numel();
  // Weights and gradients in fp32, an eighth of the model, and a cache line of padding a unit.
  EXPECT_GE(model.slice_bytes(), 8 * numel / ranks);
  EXPECT_LE(model.slice_bytes(), 8 * (numel / ranks + 64 * 26));
  EXPECT_EQ(model.pool().bytes_allocated(), 0) << "gathered weights before anything computes";
}

const WrapOptions kSizeBased{.policy = WrapPolicy::kSizeBased, .min_params = 1000};

struct Configuration {
  const char* name;
  bool tied = false;
  EngineOptions engine;
};

std::vector<Configuration> all_configurations() {
  return {
      {"plain"},
      {"tied", true},
      {"none", false, {.shard = {.wrap = {.policy = WrapPolicy::kNone}}}},
      {"noneTied", true, {.shard = {.wrap = {.policy = WrapPolicy::kNone}}}},
      {"kept",
       false,
       {.shard = {.reshard_after_forward = {.on = false},
                  .forward_prefetch = 2,
                  .backward_prefetch = BackwardPrefetch::kPost}}},
      {"lazy", true, {.shard = {.forward_prefetch = 0, .backward_prefetch = BackwardPrefetch::kNone}}},
      {"capped", false, {.shard = {.forward_prefetch = 8, .max_gathered_bytes = 20'000}}},
      {"gradOp", false, {.shard = {.strategy = ShardStrategy::kShardGradOp}}},
      {"optimizerOnly", false, {.shard = {.strategy = ShardStrategy::kShardOptimizer}}},
      {"noShard", true, {.shard = {.strategy = ShardStrategy::kNoShard}}},
      {"reduceAtEnd", false, {.reduce_at_end = true}},
      {"sizeBased", false, {.shard = {.wrap = kSizeBased}}},
      {"nested",
       false,
       {.shard = {.wrap = {.policy = WrapPolicy::kModules,
                           .modules = {"model.layers.1", "*.mlp", "*.self_attn", "lm_head"}}}}},
      {"normsApart", true, {.shard = {.wrap = {.policy = WrapPolicy::kModules, .modules = {"*norm"}}}}},
      {"offload", false, {.shard = {.offload = Offload::kCpu}}},
      {"recompute", false, {.activations = {.policy = RecomputePolicy::kFull}}},
      {"recomputeNested",
       false,
       {.shard = {.wrap = kSizeBased}, .activations = {.policy = RecomputePolicy::kFull}}},
      {"recomputeEverySecond", true, {.activations = {.policy = RecomputePolicy::kEveryN}}},
      {"recomputeCheap", false, {.activations = {.policy = RecomputePolicy::kSelective}}},
      {"recomputeUnwrapped",
       false,
       {.shard = {.wrap = {.policy = WrapPolicy::kNone}}, .activations = {.policy = RecomputePolicy::kFull}}},
      {"recomputeKept",
       false,
       {.shard = {.strategy = ShardStrategy::kShardGradOp},
        .activations = {.policy = RecomputePolicy::kFull, .modules = {"*.mlp", "*.1.self_attn"}}}},
  };
}

class Configurations : public ::testing::TestWithParam<Configuration> {
 protected:
  Configurations() { at::set_num_threads(1); }  // tiny products: threads would only wait for each other
};
INSTANTIATE_TEST_SUITE_P(All, Configurations, ::testing::ValuesIn(all_configurations()),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

/// The gradient of each unsharded parameter of the model, by part name.
std::map<std::string, at::Tensor> plain_gradients(Model& model, const std::vector<at::Tensor>& batches,
                                                  double scale) {
  for (const at::Tensor& ids : batches) model.loss(language_batch(ids), scale).backward();
  std::map<std::string, at::Tensor> gradients;
  const auto note = [&](const Parameter& parameter) {
    at::Tensor rest = parameter.value.grad().flatten();
    for (const Parameter::Part& part : parameter.parts()) {
      gradients[part.name] = rest.narrow(0, 0, part.numel());
      rest = rest.narrow(0, part.numel(), rest.numel() - part.numel());
    }
  };
  for (const Parameter* parameter : model.parameters()) note(*parameter);
  return gradients;
}

void expect_gradients(const ShardedModel& model, const std::map<std::string, at::Tensor>& expected) {
  std::size_t found = 0;
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      const at::Tensor mine = unit->gradient().narrow(0, piece.at, piece.end - piece.begin);
      EXPECT_LT(relative_error(mine, expected.at(piece.part->name)), 1e-5) << piece.part->name;
      ++found;
    }
  }
  EXPECT_EQ(found, expected.size());
}

TEST_P(Configurations, GradientsAreThoseOfTheUnshardedModel) {
  const ModelOptions options = lively_options(3, GetParam().tied);
  LocalCommunicator comm;
  ShardedModel model(model_of(options), comm, GetParam().engine, 9, at::kCPU);
  // Three sums, so that what the first left behind would show in the next: of one, two and again one
  // micro-batch.
  for (const std::vector<at::Tensor>& batches :
       {std::vector{ids_of(1)}, std::vector{ids_of(2), ids_of(3)}, std::vector{ids_of(4)}}) {
    const auto plain = whole_of(options);
    const auto expected = plain_gradients(*plain, batches, 0.5);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const at::Tensor loss =
          model.accumulate(language_batch(batches[i]), 0.5, {i == 0, i + 1 == batches.size()});
      EXPECT_FALSE(loss.requires_grad());
      EXPECT_NEAR(loss.item<double>(), plain->loss(language_batch(batches[i]), 1.0).item<double>(), 1e-3);
    }
    model.finish_gradients();
    expect_gradients(model, expected);
  }
}

/// Matrices have sizes of fp8.
ModelOptions fp8_options(std::int64_t layers, bool tied = false) {
  ModelOptions options = lively_options(layers, tied);
  options.hidden_size = 32;
  options.intermediate_size = 48;
  return options;
}

TEST_P(Configurations, PassesInFp8HaveTheBitsOfTheUnshardedModel) {
  const ModelOptions options = fp8_options(3, GetParam().tied);
  EngineOptions engine = GetParam().engine;
  engine.precision = {.preset = PrecisionPreset::kBf16Fp32Reduce, .matmul = Matmul::kFp8};
  const ModelTypes types = resolve(engine.precision).types();
  LocalCommunicator comm;
  ShardedModel model(build_model(options, types, at::kCPU), comm, engine, 9, at::kCPU);
  const auto plain = build_model(options, types, at::kCPU);
  Batch batch = language_batch(ids_of(1));
  for (const bool training : {true, false, true}) {
    materialize(*plain, 9, at::kBFloat16);
    batch.training = training;
    const at::Tensor expected = plain->loss(batch, 0.5);
    expected.backward();
    EXPECT_TRUE(model.accumulate(batch, 0.5, {}).equal(expected)) << training;
    model.finish_gradients();
    for (const Parameter* parameter : plain->parameters()) {
      for (const auto& unit : model.units()) {
        for (const SlicePiece& piece : unit->pieces()) {
          if (piece.part->name != parameter->parts().front().name) continue;
          const at::Tensor mine = unit->gradient().narrow(0, piece.at, piece.numel());
          const at::Tensor whole = parameter->value.grad().flatten().narrow(0, piece.begin, piece.numel());
          EXPECT_LT(relative_error(mine, whole), 1e-2) << piece.part->name;
        }
      }
    }
    batch.training = false;
    EXPECT_TRUE(model.evaluate(batch).loss.equal(plain->evaluate(batch).loss));
    for (const auto& unit : model.units()) unit->gradient().fill_(NAN);
  }
}

/// Two blocks in bf16.
ShardedModel in_bf16(Matmul matmul, Communicator& comm, std::uint64_t seed = 9) {
  EngineOptions engine = kBf16;
  engine.precision.matmul = matmul;
  return {build_model(fp8_options(2), resolve(engine.precision).types(), at::kCPU), comm, engine, seed,
          at::kCPU};
}

/// One rank of two that counts what it would send, by the unit's name, and the bytes of blocks.
class Counting final : public test::SilentCommunicator {
 public:
  Counting() : SilentCommunicator(0, 2) {}
  Pending all_gather(void* buffer, std::size_t count, DType type, std::string_view unit) override {
    ++gathers[std::string(unit)];
    if (unit.starts_with("model.layers.")) block_bytes += count * size_of(type);
    return SilentCommunicator::all_gather(buffer, count, type, unit);
  }
  Pending reduce_scatter(void*, DType, float*, std::size_t, float, bool, std::string_view unit) override {
    ++reductions[std::string(unit)];
    return {};
  }
  std::map<std::string, int> gathers;
  std::size_t block_bytes = 0;  ///< gathered
  std::map<std::string, int> reductions;
};

TEST(ShardedModel, TrainingPassesGatherHalfTheBytesInFp8) {
  Batch batch = language_batch(ids_of(1));
  const auto gathered = [&](Matmul matmul, bool training) {
    Counting comm;
    ShardedModel model = in_bf16(matmul, comm);
    batch.training = training;
    if (training)
      (void)model.accumulate(batch, 1, {});
    else
      (void)model.evaluate(batch);
    return comm.block_bytes;
  };
  // Per block of a rank: attention 32 * (32 + 16 + 16 + 32), mlp 3 * 32 * 48, half of each; forward and
  // backward.
  constexpr std::size_t kMatrices = 2 * (32 * 96 + 3 * 32 * 48) / 2;
  EXPECT_EQ(gathered(Matmul::kFp8, true), 2 * kMatrices);
  EXPECT_EQ(gathered(Matmul::kFp8, false), 2 * kMatrices);
  EXPECT_GE(gathered(Matmul::kParam, true), 4 * kMatrices);
}

TEST(ShardedModel, PassesInFp8SeeNewWeights) {
  LocalCommunicator comm;
  ShardedModel model = in_bf16(Matmul::kFp8, comm, 9);
  ShardedModel other = in_bf16(Matmul::kFp8, comm, 10);
  Batch batch = language_batch(ids_of(1));
  batch.training = true;
  const at::Tensor before = model.accumulate(batch, 1, {});
  model.finish_gradients();
  for (std::size_t i = 0; i < model.units().size(); ++i)
    model.units()[i]->master().copy_(other.units()[i]->master());
  model.weights_updated();
  model.prefetch();
  const at::Tensor after = model.accumulate(batch, 1, {});
  EXPECT_FALSE(after.equal(before));
  EXPECT_TRUE(after.equal(other.accumulate(batch, 1, {})));
}

TEST_P(Configurations, MemoryStopsGrowingAfterTheFirstStep) {
  LocalCommunicator comm;
  ShardedModel model(model_of(lively_options(6, GetParam().tied)), comm, GetParam().engine, 9, at::kCPU);
  const auto step = [&] {
    (void)model.accumulate(language_batch(ids_of(1)), 1.0, {true, false});
    (void)model.accumulate(language_batch(ids_of(2)), 1.0, {false, true});
    model.finish_gradients();
    (void)model.evaluate(language_batch(ids_of(3)));
  };
  step();
  const std::int64_t bytes = model.pool().bytes_allocated();
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(model.pool().bytes_allocated(), bytes);
}

TEST_P(Configurations, EvaluationLeavesGradientsAndWeightsAlone) {
  const ModelOptions options = lively_options(3, GetParam().tied);
  LocalCommunicator comm;
  ShardedModel model(model_of(options), comm, GetParam().engine, 9, at::kCPU);
  run_pass(model, language_batch(ids_of(1)));
  std::vector<at::Tensor> before;
  for (const auto& unit : model.units()) {
    before.push_back(unit->gradient().clone());
    before.push_back(unit->master().clone());
  }
  const auto plain = whole_of(options);
  EXPECT_NEAR(model.evaluate(language_batch(ids_of(5))).loss.item<double>(),
              plain->loss(language_batch(ids_of(5)), 1.0).item<double>(), 1e-3);
  const Batch prompts = language_batch(ids_of(5));
  EXPECT_LT(relative_error(model.decoder(prompts)->start(), plain->decoder(prompts)->start()), 1e-5);
  for (std::size_t i = 0; i < model.units().size(); ++i) {
    EXPECT_TRUE(at::equal(model.units()[i]->gradient(), before[2 * i]));
    EXPECT_TRUE(at::equal(model.units()[i]->master(), before[2 * i + 1]));
  }
}

/// The model, of whose parameters those that match one of `patterns` are frozen.
std::unique_ptr<Model> frozen(const ModelOptions& options, const std::vector<std::string>& patterns) {
  auto model = model_of(options);
  for (Parameter* parameter : model->parameters())
    parameter->freeze([&](const std::string& name) { return matches_any(patterns, name); });
  return model;
}

TEST_P(Configurations, WhatIsFrozenHasNoGradientAndTheRestItsOwn) {
  const ModelOptions options = lively_options(3, GetParam().tied);
  for (const std::vector<std::string>& patterns : std::vector<std::vector<std::string>>{
           {"model.embed_tokens.*"},
           {"model.embed_tokens.*", "model.layers.[01].*"},
           {"model.layers.*", "model.norm.*"},
           {"lm_head.*", "model.norm.*", "model.layers.2.*"},
           {"*.q_proj.*", "*.up_proj.*", "*norm*", "model.layers.1.mlp.down_proj.*"}}) {
    SCOPED_TRACE(patterns[0]);
    LocalCommunicator comm;
    ShardedModel model(frozen(options, patterns), comm, GetParam().engine, 9, at::kCPU);
    for (const std::vector<at::Tensor>& batches :
         {std::vector{ids_of(1)}, std::vector{ids_of(2), ids_of(3)}}) {
      const auto plain = whole_of(options);
      const auto expected = plain_gradients(*plain, batches, 0.5);
      for (std::size_t i = 0; i < batches.size(); ++i)
        (void)model.accumulate(language_batch(batches[i]), 0.5, {i == 0, i + 1 == batches.size()});
      model.finish_gradients();
      for (const auto& unit : model.units()) {
        EXPECT_EQ(unit->trains(), unit->plan().trained_numel() > 0) << unit->name();
        EXPECT_EQ(unit->gradient().numel(), unit->trains() ? unit->master().numel() : 0) << unit->name();
        if (!unit->trains()) continue;
        for (const SlicePiece& piece : unit->pieces()) {
          const at::Tensor mine = unit->gradient().narrow(0, piece.at, piece.numel());
          if (piece.part->frozen) {
            EXPECT_EQ(mine.count_nonzero().item<int>(), 0) << piece.part->name;
          } else {
            EXPECT_LT(relative_error(mine, expected.at(piece.part->name)), 1e-5) << piece.part->name;
          }
        }
      }
      for (const auto& unit : model.units()) unit->gradient().fill_(NAN);  // nothing of a step is left
      model.weights_updated();
    }
  }
}

TEST(ShardedModel, InTwoBytesTheTrainedGradientsAreThoseOfAnUnfrozenModel) {
  const ModelOptions options = lively_options(3, true);
  for (const PrecisionPreset preset : {PrecisionPreset::kBf16Fp32Reduce, PrecisionPreset::kFp16}) {
    const EngineOptions engine{.precision = {.preset = preset}};
    LocalCommunicator comm;
    ShardedModel whole(model_of(options), comm, engine, 9, at::kCPU);
    ShardedModel part(frozen(options, {"*.q_proj.*", "*norm*", "model.layers.1.mlp.*"}), comm, engine, 9,
                      at::kCPU);
    for (ShardedModel* model : {&whole, &part}) run_pass(*model, language_batch(ids_of(1)), 0.5);
    for (std::size_t i = 0; i < whole.units().size(); ++i) {
      for (const SlicePiece& piece : part.units()[i]->pieces()) {
        if (piece.part->frozen) continue;
        const auto gradient = [&](const ShardedModel& model) {
          return model.units()[i]->gradient().narrow(0, piece.at, piece.numel());
        };
        EXPECT_TRUE(at::equal(gradient(part), gradient(whole))) << piece.part->name;
        EXPECT_GT(gradient(part).count_nonzero().item<int>(), 0) << piece.part->name;
      }
    }
  }
}

TEST(ShardedModel, WhatIsFrozenIsNeitherReducedNorGatheredInVain) {
  for (const ShardStrategy strategy : {ShardStrategy::kFullShard, ShardStrategy::kShardOptimizer}) {
    Counting comm;
    ShardedModel model(frozen(lively_options(4), {"model.embed_tokens.*", "model.layers.[013].*"}), comm,
                       {.shard = {.strategy = strategy}}, 9, at::kCPU);
    for (int i = 0; i < 3; ++i) {
      run_pass(model, language_batch(ids_of(1)));
      model.weights_updated();
    }
    EXPECT_EQ(comm.reductions, (std::map<std::string, int>{{"model.layers.2", 3}, {"lm_head", 3}}));
    const bool kept = strategy == ShardStrategy::kShardOptimizer;
    EXPECT_EQ(comm.gathers.at("model.layers.0"), kept ? 1 : 3) << "nothing below it is trained: no backward";
    EXPECT_EQ(comm.gathers.at("model.layers.1"), kept ? 1 : 3);
    EXPECT_EQ(comm.gathers.at("model.layers.2"), kept ? 3 : 6);
    EXPECT_EQ(comm.gathers.at("model.layers.3"), kept ? 1 : 6) << "layer 2 needs its backward";
  }
}

/// A block that runs on what it is given, which has no gradient, and again on its own output.
class Twice final : public Model {
 public:
  Twice() {
    layers_.push_back(std::make_unique<Layer>("block", Layer::Role::kBlock));
    weight_ = &layers_[0]->add("block.weight", std::vector<std::int64_t>{6, 6}, InitSpec{.value = 0.5F});
    layers_.push_back(std::make_unique<Layer>("head", Layer::Role::kHead));
    head_ = &layers_[1]->add("head.weight", std::vector<std::int64_t>{3, 6}, InitSpec{.value = 0.5F});
  }
  at::Tensor loss(const Batch& batch, double gradient_scale) override {
    const auto again = [this](const at::Tensor& x) {
      ++runs;
      return at::tanh(ops::linear(x, *weight_));
    };
    const at::Tensor x = batch.ids.to(at::kFloat).reshape({-1, 6}) / 60;
    const at::Tensor y = layers_[0]->run(layers_[0]->run(x, again), again);
    const at::Tensor z = layers_[1]->run(y, [this](const at::Tensor& in) { return ops::linear(in, *head_); });
    return z.square().sum() * gradient_scale;
  }
  SampleFlops flops_per_sample(const SampleShape&) const override { return {}; }
  int runs = 0;  ///< of the block

 private:
  Parameter* weight_;
  Parameter* head_;
};

TEST_P(Configurations, ALayerThatAlsoRunsWithoutAnInputGradientHasAllOfItsGradient) {
  EngineOptions options = GetParam().engine;
  if (options.shard.wrap.policy == WrapPolicy::kModules) options.shard.wrap.modules = {"*"};
  if (!options.activations.modules.empty()) options.activations.modules = {"block"};
  LocalCommunicator comm;
  auto built = std::make_unique<Twice>();
  Twice& twice = *built;
  ShardedModel model(std::move(built), comm, options, 9, at::kCPU);
  const auto batch_of = [](int seed) { return language_batch(ids_of(seed).narrow(1, 0, 19)); };
  for (const int seed : {1, 2}) {  // what the first step loses, the second would find
    Twice plain;
    materialize(plain, 9);
    plain.loss(batch_of(seed), 0.5).backward();
    std::map<std::string, at::Tensor> expected;
    for (const Parameter* parameter : plain.parameters())
      expected[parameter->parts()[0].name] = parameter->value.grad().flatten();
    twice.runs = 0;
    run_pass(model, batch_of(seed), 0.5);
    expect_gradients(model, expected);
    if (options.activations.policy == RecomputePolicy::kFull) {
      EXPECT_EQ(twice.runs, 4) << "also the run without an input gradient is recomputed";
    }
  }
}

TEST(ShardedModel, ResultsRepeatBitForBit) {
  std::vector<at::Tensor> gradients[2];
  for (auto& mine : gradients) {
    LocalCommunicator comm;
    ShardedModel model(model_of(lively_options(2)), comm, kBf16, 9, at::kCPU);
    run_pass(model, language_batch(ids_of(1)));
    for (const auto& unit : model.units()) mine.push_back(unit->gradient().clone());
  }
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i])) << i;
}

/// A communicator whose sums are under way, and use their memory, until somebody waits for them.
class Slow final : public test::SilentCommunicator {
 public:
  Slow() : SilentCommunicator(0, 1) {}
  Pending reduce_scatter(void* input, DType type, float* output, std::size_t count, float, bool,
                         std::string_view) override {
    last = std::make_shared<Sum>();
    last->copy = [=] { std::memcpy(output, input, count * size_of(type)); };
    return Pending(last);
  }

  struct Sum final : Pending::State {
    void wait() override {
      copy();
      done = true;
    }
    std::function<void()> copy;
    bool done = false;
  };
  std::shared_ptr<Sum> last;
};

TEST(ShardedModel, MemoryStaysAsLongAsACollectiveUsesIt) {
  Slow comm;
  {
    ShardedModel model(model_of(lively_options(1)), comm, kBf16, 9, at::kCPU);
    (void)model.accumulate(language_batch(ids_of(1)), 1.0, {});
    EXPECT_FALSE(comm.last->done);
  }  // as when an error ends the step: sums are still under way
  EXPECT_TRUE(comm.last->done) << "freed under a running collective";
}

}  // namespace
}  // namespace echelon
