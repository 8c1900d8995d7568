#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/tasks/task.h"
#include "text/tokenizer.h"

namespace echelon::data {

/// A token of a choice, and the place behind which it is predicted.
struct Prediction {
  std::int64_t position;  ///< in the sequence
  std::int32_t target;
  std::size_t choice;  ///< counted over the whole task
};

/// A sequence that a model computes for the predictions in it.
struct ScoredSequence {
  std::vector<std::int32_t> ids;
  std::vector<Prediction> predictions;
};

/// What a model takes.
struct ModelLimits {
  std::int64_t positions = 0;   ///< longest sequence
  std::int64_t vocab_size = 0;  ///< ids lie below it
};

/// The sequences of a task of kind kChoices, split into context and continuation as lm-evaluation-harness
/// does: the continuation is a space and the choice; white space at the end of the context belongs to it;
/// the ids are those of both together, cut behind the ids of the context alone; an empty context is the
/// tokenizer's BOS, else its EOS. Choices of an item share a sequence as far as one begins as the other.
/// Throws Error(kData) for an item that is too long, or whose ids the model does not have.
[[nodiscard]] std::vector<ScoredSequence> scored_sequences(const Task& task, const Tokenizer& tokenizer,
                                                           const ModelLimits& limits);

/// The ids of each prompt of a task of kind kExact, which leave room for an answer. Throws as above.
[[nodiscard]] std::vector<std::vector<std::int64_t>> prompt_ids(const Task& task, const Tokenizer& tokenizer,
                                                                const ModelLimits& limits);

/// A task as ids.
struct EncodedTask {
  Task task;
  std::vector<ScoredSequence> sequences;           ///< kChoices
  std::vector<std::vector<std::int64_t>> prompts;  ///< kExact: one for each item
};

/// Reads and encodes the tasks. Throws as read_tasks() and the functions above do.
[[nodiscard]] std::vector<EncodedTask> encode_tasks(const EvaluationOptions& options,
                                                    const Tokenizer& tokenizer, const ModelLimits& limits);

}  // namespace echelon::data
