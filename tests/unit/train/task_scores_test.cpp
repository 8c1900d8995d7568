#include "train/eval/task_scores.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/local_communicator.h"
#include "support/tokenizer_json.h"

namespace echelon {
namespace {

using Ids = std::vector<std::int64_t>;

/// Says the same, whatever the prompt is.
class Script final : public Decoder {
 public:
  explicit Script(Ids says) : says_(std::move(says)) {}
  at::Tensor start() override {
    const at::Tensor logits = at::zeros({1, 300});
    logits[0][says_.at(said_++)] = 1;
    return logits;
  }
  at::Tensor step(const at::Tensor& /*ids*/) override { return start(); }
  void reorder(const at::Tensor& /*rows*/) override {}

 private:
  Ids says_;
  std::size_t said_ = 0;
};

class Actor final : public Model {
 public:
  explicit Actor(Ids says) : says_(std::move(says)) {}
  at::Tensor loss(const Batch& /*batch*/, double /*gradient_scale*/) override { return {}; }
  std::unique_ptr<Decoder> decoder(const Batch& /*prompts*/) const override {
    return std::make_unique<Script>(says_);
  }
  SampleFlops flops_per_sample(const SampleShape& /*shape*/) const override { return {}; }

 private:
  Ids says_;
};

/// Whether "t" is found as the answer where a model says `text`; [EOT] is no end of it.
bool finds_t(const std::string& text, const std::string& after) {
  const std::shared_ptr<const Tokenizer> tokenizer =
      Tokenizer::from_bytes(testing::byte_level_document().dump(), "test");
  const std::vector<std::int32_t> ids = tokenizer->encode(text);
  LocalCommunicator comm;
  ShardedModel model(std::make_unique<Actor>(Ids(ids.begin(), ids.end())), comm, {.trains = false}, 0,
                     at::kCPU);
  const data::EncodedTask encoded{
      .task = {.name = "task",
               .kind = data::TaskKind::kExact,
               .items = {{.answers = {"t"}}},
               .answer = {.after = after, .max_new_tokens = static_cast<std::int64_t>(ids.size())}},
      .prompts = {{3}}};
  const TextOptions options{.tokenizer = tokenizer, .end_ids = {0}};
  return score_task(model, encoded, options, {}, comm, nullptr)->score() == 1;
}

TEST(TaskScores, AnAnswerMayFollowASpecialToken) {
  EXPECT_TRUE(finds_t("h[EOT]t", "[EOT]"));
  EXPECT_TRUE(finds_t("t[EOT]h[EOT] t", "[EOT]")) << "the last one counts";
  EXPECT_FALSE(finds_t("t[EOT]h", "[EOT]"));
  EXPECT_FALSE(finds_t("h[BOT]t", "[EOT]"));
  EXPECT_FALSE(finds_t("t", "[EOT]"));
}

TEST(TaskScores, ASpecialTokenIsNoPartOfAnAnswer) {
  EXPECT_TRUE(finds_t("t[EOT]", ""));
  EXPECT_TRUE(finds_t("he[EOT]t[BOT]", "he"));
}

}  // namespace
}  // namespace echelon
