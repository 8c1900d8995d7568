#include "model/generate/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/str.h"
#include "model/model.h"
#include "shapes/llama_family.h"
#include "unit/model/tensors.h"

namespace echelon {
namespace {

using Prompts = std::vector<std::vector<std::int64_t>>;

const Prompts kPrompts{{5}, {1, 2, 3, 4, 5, 6, 7}, {9, 8, 7}, {30, 1, 30, 1, 30}};

std::unique_ptr<Model> model_of(const std::string& kind) {
  ModelOptions options{.kind = choice_of<ModelKind>(kind).value(),
                       .vocab_size = 31,
                       .hidden_size = 24,
                       .intermediate_size = 40,
                       .layers = 3,
                       .heads = 4,
                       .kv_heads = 2,
                       .max_positions = 32,
                       .init_std = 0.3};
  const bool has_window = find_llama_family(options.kind) != nullptr &&
                          find_llama_family(options.kind)->windows != Windows::kNone;
  if (has_window && options.kind != ModelKind::kQwen2 && options.kind != ModelKind::kQwen3)
    options.window = 5;
  if (options.kind == ModelKind::kOlmo3) {
    options.full_attention_every = 2;
    options.rope_scaling = {.kind = RopeKind::kYarn, .factor = 4, .original_positions = 8};
  }
  if (options.kind == ModelKind::kGemma3Text) {
    options.full_attention_every = 3;
    options.window_rope_theta = 100;
  }
  if (options.kind == ModelKind::kSmolLm3) options.no_rope_every = 2;
  if (options.kind == ModelKind::kGptNeoX) options.partial_rotary_factor = 0.7;  // 4 of 6
  if (options.kind == ModelKind::kGranite) options.embedding_multiplier = 3;
  if (options.kind == ModelKind::kQwen3) options.head_size = 10;
  return test::built(options);
}

/// What the model says without anything kept: the whole sequence goes through again.
at::Tensor from_scratch(const Model& model, const std::vector<std::int64_t>& ids) {
  return model.decoder(prompt_batch({ids}, at::kCPU))->start()[0];
}

class Decoders : public ::testing::TestWithParam<const char*> {
  at::NoGradGuard no_grad_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, Decoders,
                         ::testing::Values("llama", "mistral", "qwen2", "qwen3", "olmo2", "olmo3", "smollm3",
                                           "granite", "phi3", "gemma3_text", "gpt2", "gpt_neox"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(Decoders, GiveWhatTheWholeSequenceGives) {
  const auto model = model_of(GetParam());
  const auto decoder = model->decoder(prompt_batch(kPrompts, at::kCPU));
  Prompts rows = kPrompts;
  at::Tensor logits = decoder->start();
  for (std::int64_t step = 0; step < 20; ++step) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      EXPECT_LT(test::relative_error(logits[static_cast<std::int64_t>(row)], from_scratch(*model, rows[row])),
                1e-5)
          << "step " << step << " row " << row;
    }
    std::vector<std::int64_t> next;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      next.push_back((step * 7 + static_cast<std::int64_t>(row) * 5) % 31);
      rows[row].push_back(next.back());
    }
    logits = decoder->step(at::tensor(next, at::kLong));
  }
}

TEST_P(Decoders, RowsCanBeMultipliedReorderedAndDropped) {
  const auto model = model_of(GetParam());
  const auto decoder = model->decoder(prompt_batch(kPrompts, at::kCPU));
  (void)decoder->start();
  decoder->reorder(at::tensor({3, 1, 1, 0, 3, 2}, at::kLong));
  (void)decoder->step(at::tensor({1, 2, 3, 4, 5, 6}, at::kLong));
  decoder->reorder(at::tensor({5, 2, 0}, at::kLong));
  const at::Tensor logits = decoder->step(at::tensor({10, 11, 12}, at::kLong));
  const Prompts expected{{9, 8, 7, 6, 10}, {1, 2, 3, 4, 5, 6, 7, 3, 11}, {30, 1, 30, 1, 30, 1, 12}};
  for (std::int64_t row = 0; row < 3; ++row) {
    const at::Tensor right = from_scratch(*model, expected[static_cast<std::size_t>(row)]);
    EXPECT_LT(test::relative_error(logits[row], right), 1e-5) << row;
  }
}

TEST_P(Decoders, RefuseToGrowLongerThanTheModelsPositions) {
  const auto model = model_of(GetParam());
  EXPECT_THROW((void)model->decoder(prompt_batch({std::vector<std::int64_t>(33, 1)}, at::kCPU)), Error);
  const auto decoder = model->decoder(prompt_batch({std::vector<std::int64_t>(31, 1)}, at::kCPU));
  (void)decoder->start();
  (void)decoder->step(at::tensor({1}, at::kLong));
  EXPECT_THROW((void)decoder->step(at::tensor({1}, at::kLong)), Error);
}

TEST_P(Decoders, ContinuationsDoNotDependOnTheirNeighbors) {
  const auto model = model_of(GetParam());
  for (const std::int64_t beams : {1, 3}) {
    const GenerateOptions options{.max_new_tokens = 12, .end_ids = {4}, .beams = beams};
    const auto together = generate(*model->decoder(prompt_batch(kPrompts, at::kCPU)), 4, options);
    for (std::size_t i = 0; i < kPrompts.size(); ++i) {
      EXPECT_EQ(together[i],
                generate(*model->decoder(prompt_batch({kPrompts[i]}, at::kCPU)), 1, options).front());
    }
  }
}

TEST_P(Decoders, OneBeamAmongTheWholeVocabularyFindsTheMostLikelyPair) {
  const auto model = model_of(GetParam());
  const GenerateOptions options{.max_new_tokens = 2, .beams = 31};
  const auto found = generate(*model->decoder(prompt_batch(kPrompts, at::kCPU)), 4, options);
  for (std::size_t i = 0; i < kPrompts.size(); ++i) {
    std::pair<double, std::vector<std::int64_t>> best{-1e30, {}};
    const at::Tensor first = at::log_softmax(from_scratch(*model, kPrompts[i]), 0);
    for (std::int64_t a = 0; a < 31; ++a) {
      std::vector<std::int64_t> longer = kPrompts[i];
      longer.push_back(a);
      const auto [score, b] = at::log_softmax(from_scratch(*model, longer), 0).max(0);
      const double sum = (score + first[a]).item<double>();
      if (sum > best.first) best = {sum, {a, b.item<std::int64_t>()}};
    }
    EXPECT_EQ(found[i], best.second);
  }
}

TEST_P(Decoders, StepUntilTheLastProcessIsDone) {
  const auto model = model_of(GetParam());
  for (const std::int64_t beams : {1, 2}) {
    const GenerateOptions options{.max_new_tokens = 12, .end_ids = {4}, .beams = beams};
    const auto alone = generate(*model->decoder(prompt_batch(kPrompts, at::kCPU)), 4, options);
    int asked = 0;
    const auto others_go_on = [&](bool) {
      ++asked;
      return true;
    };
    EXPECT_EQ(generate(*model->decoder(prompt_batch(kPrompts, at::kCPU)), 4, options, others_go_on), alone);
    EXPECT_EQ(asked, 11);
  }
}

TEST(Generate, BeamsAreNotDrawn) {
  const auto model = model_of("llama");
  const auto decoder = model->decoder(prompt_batch(kPrompts, at::kCPU));
  EXPECT_THROW((void)generate(*decoder, 4, {.beams = 2, .temperature = 1.0}), Error);
}

/// How often each token is drawn in `count` draws.
std::map<std::int64_t, int> drawn(const at::Tensor& logits, const GenerateOptions& options, int count) {
  std::map<std::int64_t, int> counts;
  for (int place = 0; place < count; ++place) ++counts[draw(logits, options, 0, place)];
  return counts;
}

TEST(Draw, FollowsTheSharesAtATemperature) {
  const at::Tensor shares = at::tensor({0.5, 0.1, 0.3, 0.1}, at::kDouble);
  for (const double temperature : {1.0, 0.5, 2.0}) {
    const at::Tensor expected = at::softmax(shares.log() / temperature, 0);
    const auto counts = drawn(shares.log().to(at::kFloat), {.temperature = temperature}, 20000);
    for (const auto& [id, count] : counts)
      EXPECT_NEAR(count / 20000.0, expected[id].item<double>(), 0.015) << id;
    EXPECT_EQ(counts.size(), 4U);
  }
}

TEST(Draw, TopKAndTopPLeaveTheLikeliest) {
  const at::Tensor logits = at::tensor({0.1F, 0.4F, 0.2F, 0.3F}, at::kFloat).log();
  const auto ids = [&](const GenerateOptions& options) {
    return mapped(drawn(logits, options, 1000), [](const auto& one) { return one.first; });
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(ids({.temperature = 1.0, .top_k = 1}), (Ids{1}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_k = 2}), (Ids{1, 3}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_k = 99}), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_p = 0.0}), (Ids{1}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_p = 0.35}), (Ids{1}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_p = 0.65}), (Ids{1, 3}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_p = 0.75}), (Ids{1, 2, 3}));
  EXPECT_EQ(ids({.temperature = 1.0, .top_k = 2, .top_p = 0.5}), (Ids{1}));
}

TEST(Draw, DependsOnSeedPromptAndPlaceOnly) {
  at::manual_seed(1);
  const at::Tensor logits = at::randn({1000});
  const auto sequence = [&](std::uint64_t seed, std::int64_t prompt) {
    std::vector<std::int64_t> ids;
    for (std::int64_t place = 0; place < 8; ++place)
      ids.push_back(draw(logits, {.temperature = 1.0, .seed = seed}, prompt, place));
    return ids;
  };
  EXPECT_EQ(sequence(1, 0), sequence(1, 0));
  EXPECT_NE(sequence(1, 0), sequence(2, 0));
  EXPECT_NE(sequence(1, 0), sequence(1, 1));
}

}  // namespace
}  // namespace echelon
