#include "app/init/draft.h"

#include <algorithm>
#include <filesystem>

#include "base/str.h"

namespace echelon::app {
namespace {

std::string quoted(const std::string& text) {
  std::string written = "\"";
  for (const char c : text) written += c == '"' || c == '\\' ? str('\\', c) : std::string(1, c);
  return written + '"';
}

/// "train" of "train.steps"; "data.validation" of "data.validation.path".
std::string section_of(const std::string& key) {
  return key.substr(0, key.rfind('.'));
}

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
    case Goal::kPretrain:
      return {4096, on_gpu ? 512 * 1024 : 16 * 1024, "3.0e-4", "0.1"};
    case Goal::kFineTune:
      return {2048, 64 * 1024, "1.0e-5", "0.0"};
    case Goal::kLora:
      return {2048, 32 * 1024, "2.0e-4", "0.0"};
  }
  return {};
}

void add_model(const Answers& answers, const Circumstances& circumstances, std::vector<DraftLine>& lines) {
  if (answers.goal == Goal::kPretrain) {
    lines.push_back(
        {"model.preset", answers.model, "sizes of a published model; `echelon validate` prints them"});
    lines.push_back({"model.vocab_size", std::to_string(circumstances.vocab_size),
                     "the data's tokenizer has so many tokens"});
    return;
  }
  lines.push_back(
      {"model.from", quoted(answers.model), "Hugging Face folder: sizes and weights are read from it"});
  if (answers.goal == Goal::kFineTune) return;
  lines.push_back({"lora.rank", "16", "of the matrices that are trained beside the frozen weights"});
  lines.push_back({"lora.alpha", "32", "their product is multiplied by alpha / rank"});
}

void add_data(const Answers& answers, const Circumstances& circumstances, std::int64_t seq_len,
              std::vector<DraftLine>& lines) {
  const bool chats = answers.goal != Goal::kPretrain;
  const std::filesystem::path folder = answers.data;
  lines.push_back(
      {"data.kind", chats ? "chat" : "tokens", chats ? "the loss is of what the assistant writes" : ""});
  lines.push_back({"data.path", quoted(folder / "train.tok"), ""});
  lines.push_back({"data.seq_len", std::to_string(seq_len), "attention's time grows with its square"});
  if (chats) lines.push_back({"data.on_bad_record", "skip", "leaves out conversations that are longer"});
  if (!circumstances.has_validation) return;
  lines.push_back({"data.validation.path", quoted(folder / "valid.tok"), ""});
  lines.push_back({"data.validation.batches", "8", "each as large as a step's batch; 0: the whole file"});
}

}  // namespace

std::vector<DraftLine> draft(const Answers& answers, const Circumstances& circumstances) {
  const bool on_gpu = answers.machines.device != "cpu";
  const Usual values = usual(answers.goal, on_gpu);
  const std::int64_t seq_len = std::min(values.longest, circumstances.max_positions);
  const std::int64_t batch = batch_of(values.tokens, seq_len, answers.machines.ranks());
  const auto every = [&](std::int64_t parts) {
    return std::to_string(std::max<std::int64_t>(1, answers.steps / parts));
  };
  std::vector<DraftLine> lines;
  const std::string name = std::filesystem::path(answers.model).lexically_normal().filename().string();
  lines.push_back({"run.name", quoted(str(word_of(answers.goal), '-', name.empty() ? "model" : name)),
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

void set_values(const std::vector<std::string>& overrides, std::vector<DraftLine>& lines) {
  for (const std::string& text : overrides) {
    const std::size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    const std::string chosen = "chosen so that it fits, and is fast";
    const auto same =
        std::find_if(lines.begin(), lines.end(), [&](const DraftLine& line) { return line.key == key; });
    if (same != lines.end()) {
      same->value = value;
      same->comment = chosen;
      continue;
    }
    const auto last = std::find_if(lines.rbegin(), lines.rend(), [&](const DraftLine& line) {
      return section_of(line.key) == section_of(key);
    });
    lines.insert(last.base() == lines.begin() ? lines.end() : last.base(), {key, value, chosen});
  }
}

std::string yaml_of(const std::vector<DraftLine>& lines, const std::string& heading) {
  constexpr std::size_t kComment = 36;  // column
  std::string text = heading;
  std::string open;  // the section of the line before
  for (const DraftLine& line : lines) {
    const std::string section = section_of(line.key);
    if (section != open) {
      const std::size_t point = section.find('.');
      const std::string outer = section.substr(0, point);
      if (open.substr(0, open.find('.')) != outer) text += str(text.empty() ? "" : "\n", outer, ":\n");
      if (point != section.npos) text += str("  ", section.substr(point + 1), ":\n");
      open = section;
    }
    const std::string indent(section.find('.') == section.npos ? 2 : 4, ' ');
    std::string written = str(indent, line.key.substr(section.size() + 1), ": ", line.value);
    if (!line.comment.empty()) {
      written.resize(std::max(kComment, written.size() + 2), ' ');
      written += "# " + line.comment;
    }
    text += written + '\n';
  }
  return text;
}

}  // namespace echelon::app
