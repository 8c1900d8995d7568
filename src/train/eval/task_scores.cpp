#include "train/eval/task_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/number.h"
#include "comm/reduce_fields.h"
#include "model/generate/generate.h"
#include "train/eval/inference_model.h"

namespace echelon {
namespace {

using data::EncodedTask;
using data::ScoredSequence;
using data::TaskItem;

/// Sequences that are computed together, of which there are at most `tokens` unless one alone has more.
using Pack = std::vector<const ScoredSequence*>;

std::vector<Pack> packs_of(const std::vector<ScoredSequence>& sequences, std::int64_t tokens) {
  std::vector<Pack> packs;
  std::int64_t used = 0;
  for (const ScoredSequence& sequence : sequences) {
    const auto size = static_cast<std::int64_t>(sequence.ids.size());
    if (packs.empty() || used + size > tokens) {
      packs.emplace_back();
      used = 0;
    }
    packs.back().push_back(&sequence);
    used += size;
  }
  return packs;
}

/// Adds the log-probability of each predicted token to that of its choice.
void score_pack(ShardedModel& model, const Pack& pack, std::vector<double>* sums) {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> lengths;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> targets;
  for (const ScoredSequence* sequence : pack) {
    for (const data::Prediction& prediction : sequence->predictions) {
      tokens.push_back(static_cast<std::int64_t>(ids.size()) + prediction.position);
      targets.push_back(prediction.target);
    }
    lengths.push_back(static_cast<std::int64_t>(sequence->ids.size()));
    ids.insert(ids.end(), sequence->ids.begin(), sequence->ids.end());
  }
  Batch batch{.samples = static_cast<std::int64_t>(pack.size()),
              .ids = at::tensor(ids, at::kLong).to(model.device())};
  batch.sequences = batch.by_sample = make_sequences(std::move(lengths));
  const std::vector<float> losses = model.token_losses(batch, tokens, targets);
  if (sums == nullptr) return;
  auto loss = losses.begin();
  for (const ScoredSequence* sequence : pack) {
    for (const data::Prediction& prediction : sequence->predictions)
      (*sums)[prediction.choice] -= static_cast<double>(*loss++);
  }
}

/// UTF-8 characters of a text.
double characters(const std::string& text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

/// The share of items whose right choice has the greatest log-probability over its `size`.
template <class Size>
double accuracy(const data::Task& task, const std::vector<double>& sums, const Size& size) {
  double right = 0;
  auto sum = sums.begin();
  for (const TaskItem& item : task.items) {
    std::vector<double> values;
    for (const std::string& choice : item.choices) values.push_back(*sum++ / size(choice));
    const auto most = std::max_element(values.begin(), values.end());
    if (most - values.begin() == static_cast<std::ptrdiff_t>(item.answer)) right += 1;
  }
  return right / static_cast<double>(task.items.size());
}

std::optional<TaskResult> score_choices(ShardedModel& model, const EncodedTask& encoded,
                                        const TaskPasses& passes, Communicator& comm, AgreedStop* stop) {
  const data::Task& task = encoded.task;
  const std::vector<Pack> packs = packs_of(encoded.sequences, passes.tokens);
  std::size_t choices = 0;
  for (const TaskItem& item : task.items) choices += item.choices.size();
  std::vector<double> sums(choices);
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (std::size_t first = 0; first < packs.size(); first += ranks) {
    if (passes.on_pass) passes.on_pass(first, packs.size());
    if (stop != nullptr) stop->begin_look();
    const std::size_t mine = first + static_cast<std::size_t>(comm.rank());
    // Every pass gathers weights, so a rank without sequences of its own computes others, which do not count.
    if (mine < packs.size()) {
      score_pack(model, packs[mine], &sums);
    } else {
      score_pack(model, packs[first], nullptr);
    }
    if (stop != nullptr && stop->end_look()) return std::nullopt;
  }
  comm.all_reduce(sums.data(), sums.size(), DType::kF64, ReduceOp::kSum, "choices").wait();
  return TaskResult{.name = task.name,
                    .kind = task.kind,
                    .items = static_cast<std::int64_t>(task.items.size()),
                    .scores = {{"acc", accuracy(task, sums, [](const std::string&) { return 1.0; })},
                               {"acc_norm", accuracy(task, sums, characters)},
                               {"acc_bytes", accuracy(task, sums, [](const std::string& s) {
                                  return static_cast<double>(s.size());
                                })}}};
}

/// The text of generated ids, in which a special token shows only where it is `shown`.
std::string shown_text(const Tokenizer& tokenizer, std::span<const std::int64_t> generated,
                       const std::string& shown) {
  std::string text;
  std::vector<std::int32_t> ids;
  for (const std::int64_t one : generated) {
    const auto id = static_cast<std::int32_t>(one);
    ids.push_back(id);
    if (id >= tokenizer.vocab_size() || tokenizer.piece_of(id) != shown || !tokenizer.is_special(id))
      continue;
    text += tokenizer.decode_any(ids) + shown;
    ids.clear();
  }
  return text + tokenizer.decode_any(ids);
}

/// The answer in a generated text; nothing if it does not give one.
std::optional<std::string> answer_in(std::string text, const data::AnswerOptions& options) {
  for (const std::string& until : options.until) text = text.substr(0, text.find(until));
  if (options.after.empty()) return trimmed(text);
  const std::size_t at = text.rfind(options.after);
  if (at == std::string::npos) return std::nullopt;
  return trimmed(text.substr(at + options.after.size()));
}

bool is_right(const TaskItem& item, const std::optional<std::string>& answer) {
  return answer && std::ranges::any_of(item.answers,
                                       [&](const std::string& right) { return trimmed(right) == *answer; });
}

/// The tokens that end a text: its end tokens, those that begin with one of `until`, and special ones that it
/// names, since the text does not show them. Others that contain it would be left out with what is before it
/// in them, so the text behind them is generated in vain.
std::vector<std::int64_t> ends_of(const TextOptions& text, const std::vector<std::string>& until) {
  const Tokenizer& tokenizer = *text.tokenizer;
  std::vector<std::int64_t> ends = text.end_ids;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = tokenizer.piece_of(id);
    const bool special = tokenizer.is_special(id);
    if (std::ranges::any_of(until,
                            [&](const auto& one) { return special ? piece == one : piece.starts_with(one); }))
      ends.push_back(id);
  }
  return ends;
}

std::optional<TaskResult> score_exact(ShardedModel& model, const EncodedTask& encoded,
                                      const TextOptions& text, const TaskPasses& passes, Communicator& comm,
                                      AgreedStop* stop) {
  const auto& prompts = encoded.prompts;
  const auto share = static_cast<std::size_t>(passes.prompts);
  const data::AnswerOptions& answer = encoded.task.answer;
  const GenerateOptions search{.max_new_tokens = answer.max_new_tokens,
                               .end_ids = ends_of(text, answer.until)};
  double right = 0;
  for (std::size_t first = 0; first < prompts.size();
       first += share * static_cast<std::size_t>(comm.size())) {
    if (passes.on_pass) passes.on_pass(first, prompts.size());
    if (stop != nullptr) stop->begin_look();
    const std::size_t begin = first + share * static_cast<std::size_t>(comm.rank());
    // A rank without prompts answers the first one, to stay in step.
    const std::size_t from = begin < prompts.size() ? begin : 0;
    const std::size_t end = begin < prompts.size() ? std::min(prompts.size(), begin + share) : 1;
    const auto at = prompts.begin();
    const auto added = generate_together(
        model,
        prompt_batch({at + static_cast<std::ptrdiff_t>(from), at + static_cast<std::ptrdiff_t>(end)},
                     model.device()),
        search, comm, stop);
    if (stop != nullptr && stop->end_look()) return std::nullopt;
    if (begin >= prompts.size()) continue;
    for (std::size_t i = begin; i < end; ++i) {
      const std::string generated = shown_text(*text.tokenizer, added[i - begin], answer.after);
      if (is_right(encoded.task.items[i], answer_in(generated, answer))) right += 1;
    }
  }
  sum_fields(comm, right, "answers");
  return TaskResult{.name = encoded.task.name,
                    .kind = encoded.task.kind,
                    .items = static_cast<std::int64_t>(prompts.size()),
                    .scores = {{"exact", right / static_cast<double>(prompts.size())}}};
}

}  // namespace

double TaskResult::standard_error() const {
  return items < 2 ? 0 : std::sqrt(score() * (1 - score()) / static_cast<double>(items - 1));
}

std::optional<TaskResult> score_task(ShardedModel& model, const data::EncodedTask& task,
                                     const TextOptions& text, const TaskPasses& passes, Communicator& comm,
                                     AgreedStop* stop) {
  return task.task.kind == data::TaskKind::kChoices ? score_choices(model, task, passes, comm, stop)
                                                    : score_exact(model, task, text, passes, comm, stop);
}

}  // namespace echelon
