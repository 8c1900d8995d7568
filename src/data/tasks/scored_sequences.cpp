#include "data/tasks/scored_sequences.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "text/template/chars.h"

namespace echelon::data {
namespace {

using Ids = std::vector<std::int32_t>;

/// Length of `text` without the white space at its end that Python's str.rstrip() takes away.
std::size_t stripped_size(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80) --begin;
    const std::string_view last = text.substr(begin);
    if (utf8_length(last) != last.size() || !jinja::is_space(code_point(last))) break;
    text.remove_suffix(last.size());
  }
  return text.size();
}

/// Encodes the texts of one task, and checks what the model would not take.
class ItemEncoder {
 public:
  ItemEncoder(const Tokenizer& tokenizer, const ModelLimits& limits)
      : tokenizer_(tokenizer), limits_(limits), encoder_(tokenizer.make_encoder()) {}

  [[nodiscard]] Ids encode(const std::string& text, const TaskItem& item) {
    Ids ids;
    encoder_->encode(text, ids);
    for (const std::int32_t id : ids) require_known(id, item);
    return ids;
  }

  /// The ids of a text that a model begins with: behind BOS, if there is one. An empty text is BOS, else EOS.
  [[nodiscard]] Ids encode_start(const std::string& text, const TaskItem& item) {
    const std::int32_t bos = tokenizer_.bos_id();
    const std::int32_t first = bos < 0 && text.empty() ? tokenizer_.eos_id() : bos;
    if (first < 0 && text.empty()) {
      throw Error(Code::kData, item.place,
                  ": the text is empty and the tokenizer has no token to begin with: give it a context");
    }
    Ids ids = text.empty() ? Ids() : encode(text, item);
    if (first >= 0) {
      require_known(first, item);
      ids.insert(ids.begin(), first);
    }
    return ids;
  }

  void require_room(std::size_t tokens, std::int64_t new_tokens, const TaskItem& item) const {
    const auto size = static_cast<std::int64_t>(tokens) + new_tokens;
    if (size <= limits_.positions) return;
    throw Error(Code::kData, item.place, ": the item has ", tokens, " tokens",
                new_tokens > 0 ? str(" and up to ", new_tokens, " new ones") : "",
                "; the model takes at most ", limits_.positions,
                ": shorten the prefix, or leave the item out");
  }

 private:
  void require_known(std::int32_t id, const TaskItem& item) const {
    if (id < limits_.vocab_size) return;
    throw Error(Code::kData, item.place, ": a text has token id ", id, "; the tokenizer has ",
                tokenizer_.vocab_size(), " ids and the model ", limits_.vocab_size,
                ": the tokenizer is not the one that the model is trained with");
  }

  const Tokenizer& tokenizer_;
  const ModelLimits& limits_;
  std::unique_ptr<TextEncoder> encoder_;
};

/// The sequence of one choice: its context and all but its last token.
ScoredSequence sequence_of(const TaskItem& item, const std::string& choice, std::size_t number,
                           ItemEncoder& encoder) {
  const std::size_t kept = stripped_size(item.context);
  const std::string context = item.context.substr(0, kept);
  const std::string continuation = str(item.context.substr(kept), " ", choice);
  Ids before = encoder.encode_start(context, item);
  const Ids whole = context.empty() ? encoder.encode(continuation, item)
                                    : encoder.encode_start(context + continuation, item);
  const std::size_t cut = context.empty() ? 0 : before.size();
  if (context.empty() && whole.size() > 1 && whole.front() == before.front()) before.clear();
  if (whole.size() <= cut) {
    throw Error(Code::kData, item.place, ": choice '", printable(choice),
                "' has no token of its own behind the context; expected a choice that "
                "the tokenizer does not join with it");
  }
  ScoredSequence sequence{.ids = before};
  const std::size_t first = before.size();
  sequence.ids.insert(sequence.ids.end(), whole.begin() + static_cast<std::ptrdiff_t>(cut), whole.end());
  for (std::size_t i = std::max<std::size_t>(first, 1); i < sequence.ids.size(); ++i)
    sequence.predictions.push_back({static_cast<std::int64_t>(i) - 1, sequence.ids[i], number});
  sequence.ids.pop_back();
  encoder.require_room(sequence.ids.size(), 0, item);
  return sequence;
}

bool begins_with(const Ids& ids, const Ids& start) {
  return ids.size() >= start.size() && std::equal(start.begin(), start.end(), ids.begin());
}

/// Adds the choices of an item. What a token predicts depends on those before it alone, so a sequence with
/// which another one begins is not computed again.
void add_item(std::vector<ScoredSequence> choices, std::vector<ScoredSequence>& all) {
  std::ranges::stable_sort(choices, [](const auto& a, const auto& b) { return a.ids.size() > b.ids.size(); });
  const auto first = static_cast<std::ptrdiff_t>(all.size());
  for (ScoredSequence& choice : choices) {
    const auto same = std::find_if(all.begin() + first, all.end(), [&](const ScoredSequence& longer) {
      return begins_with(longer.ids, choice.ids);
    });
    if (same == all.end()) {
      all.push_back(std::move(choice));
    } else {
      same->predictions.insert(same->predictions.end(), choice.predictions.begin(), choice.predictions.end());
    }
  }
}

}  // namespace

std::vector<ScoredSequence> scored_sequences(const Task& task, const Tokenizer& tokenizer,
                                             const ModelLimits& limits) {
  ItemEncoder encoder(tokenizer, limits);
  std::vector<ScoredSequence> all;
  std::size_t number = 0;
  for (const TaskItem& item : task.items) {
    std::vector<ScoredSequence> choices;
    for (const std::string& choice : item.choices)
      choices.push_back(sequence_of(item, choice, number++, encoder));
    add_item(std::move(choices), all);
  }
  return all;
}

std::vector<std::vector<std::int64_t>> prompt_ids(const Task& task, const Tokenizer& tokenizer,
                                                  const ModelLimits& limits) {
  ItemEncoder encoder(tokenizer, limits);
  std::vector<std::vector<std::int64_t>> all;
  for (const TaskItem& item : task.items) {
    const Ids ids = encoder.encode_start(item.context, item);
    encoder.require_room(ids.size(), task.answer.max_new_tokens, item);
    all.emplace_back(ids.begin(), ids.end());
  }
  return all;
}

std::vector<EncodedTask> encode_tasks(const EvaluationOptions& options, const Tokenizer& tokenizer,
                                      const ModelLimits& limits) {
  std::vector<EncodedTask> all;
  for (Task& task : read_tasks(options)) {
    EncodedTask encoded;
    if (task.kind == TaskKind::kChoices) {
      encoded.sequences = scored_sequences(task, tokenizer, limits);
    } else {
      encoded.prompts = prompt_ids(task, tokenizer, limits);
    }
    encoded.task = std::move(task);
    all.push_back(std::move(encoded));
  }
  return all;
}

}  // namespace echelon::data
