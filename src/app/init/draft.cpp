#include "app/init/draft.h"

#include <algorithm>
#include <filesystem>

#include "base/str.h"
#include "recipe/yaml/writer.h"

namespace echelon::app {
namespace {

/// Samples of an optimizer step: about `tokens`, a multiple of the ranks.
std::int64_t batch_of(std::int64_t tokens, std::int64_t seq_len, std::int64_t ranks) {
  const std::int64_t samples = std::max<std::int64_t>(1, tokens / seq_len);
  return ranks * std::max<std::int64_t>(1, (samples + ranks / 2) / ranks);
}

/// Values on which the field agrees, as a place to begin.
struct Usual {
  std::int64_t longest;  ///< tokens
  std::int64_t tokens;   ///< of an optimizer step
  const char* rate;
  const char* decay;
};

Usual usual(Goal goal, bool on_gpu) {
  switch (goal) {
    case Goal::kPretrain: return {4096, on_gpu ? 512 * 1024 : 16 * 1024, "3.0e-4", "0.1"};
    case Goal::kFineTune: return {2048, 64 * 1024, "1.0e-5", "0.0"};
    case Goal::kLora: return {2048, 32 * 1024, "2.0e-4", "0.0"};
  }
  return {};
}

void add_model(const Answers& answers, const Circumstances& circumstances,
               std::vector<recipe::DraftLine>& lines) {
  if (answers.goal == Goal::kPretrain) {
    lines.push_back(
        {"model.preset", answers.model, "sizes of a published model; `echelon validate` prints them"});
    lines.push_back({"model.vocab_size", std::to_string(circumstances.vocab_size),
                     "the data's tokenizer has so many tokens"});
    return;
  }
  lines.push_back({"model.from", recipe::quoted(answers.model),
                   "Hugging Face folder: sizes and weights are read from it"});
  if (answers.goal == Goal::kFineTune) return;
  lines.push_back({"lora.rank", "16", "of the matrices that are trained beside the frozen weights"});
  lines.push_back({"lora.alpha", "32", "their product is multiplied by alpha / rank"});
}

void add_data(const Answers& answers, const Circumstances& circumstances, std::int64_t seq_len,
              std::vector<recipe::DraftLine>& lines) {
  const bool chats = answers.goal != Goal::kPretrain;
  const std::filesystem::path folder = answers.data;
  lines.push_back(
      {"data.kind", chats ? "chat" : "tokens", chats ? "the loss is of what the assistant writes" : ""});
  lines.push_back({"data.path", recipe::quoted(folder / "train.tok"), ""});
  lines.push_back({"data.seq_len", std::to_string(seq_len), "attention's time grows with its square"});
  if (chats) lines.push_back({"data.on_bad_record", "skip", "leaves out conversations that are longer"});
  if (!circumstances.has_validation) return;
  lines.push_back({"data.validation.path", recipe::quoted(folder / "valid.tok"), ""});
  lines.push_back({"data.validation.batches", "8", "each as large as a step's batch; 0: the whole file"});
}

}  // namespace

std::vector<recipe::DraftLine> draft(const Answers& answers, const Circumstances& circumstances) {
  const bool on_gpu = answers.machines.device != "cpu";
  const Usual values = usual(answers.goal, on_gpu);
  const std::int64_t seq_len = std::min(values.longest, circumstances.max_positions);
  const std::int64_t batch = batch_of(values.tokens, seq_len, answers.machines.ranks());
  const auto every = [&](std::int64_t parts) {
    return std::to_string(std::max<std::int64_t>(1, answers.steps / parts));
  };
  std::vector<recipe::DraftLine> lines;
  const std::string name = std::filesystem::path(answers.model).lexically_normal().filename().string();
  lines.push_back({"run.name", recipe::quoted(str(word_of(answers.goal), '-', name.empty() ? "model" : name)),
                   "the run's folder is runs/ and this name"});
  add_model(answers, circumstances, lines);
  lines.push_back(
      {"shard.strategy", "full_shard", "weights, gradients and optimizer state are split over all ranks"});
  lines.push_back({"precision.preset", on_gpu ? "bf16_fp32_reduce" : "fp32",
                   on_gpu ? "computes in bf16, sums and updates in fp32" : ""});
  lines.push_back({"activation_checkpointing.policy", "none", "full: less memory, a third more arithmetic"});
  add_data(answers, circumstances, seq_len, lines);
  lines.push_back({"optim.lr", values.rate, "the first thing to try other values of"});
  lines.push_back({"optim.weight_decay", values.decay, ""});
  lines.push_back({"schedule.kind", "warmup_cosine", ""});
  lines.push_back({"schedule.warmup_steps", every(20), ""});
  lines.push_back({"train.steps", std::to_string(answers.steps),
                   str("of ", human_count(static_cast<std::uint64_t>(batch * seq_len)), " tokens at most")});
  lines.push_back(
      {"train.micro_batch_size", "1", "sequences of a rank at a time: memory of activations grows with it"});
  lines.push_back(
      {"train.global_batch_size", std::to_string(batch), "sequences of a step, over all ranks and passes"});
  lines.push_back({"train.clip_grad_norm", "1.0", ""});
  if (circumstances.has_validation) lines.push_back({"train.validate_every_steps", every(10), ""});
  lines.push_back(
      {"checkpoint.every_steps", every(10), "what a failure costs at most; stops save by themselves"});
  lines.push_back({"checkpoint.keep_last", "2", ""});
  lines.push_back({"metrics.every_steps", every(100), ""});
  return lines;
}

}  // namespace echelon::app
