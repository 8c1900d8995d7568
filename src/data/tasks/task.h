#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/choice.h"
#include "data/tasks/options.h"

namespace echelon {
namespace data {

/// The way in which a model answers.
enum class TaskKind : std::uint8_t {
  kChoices,  ///< the choice that is the likeliest continuation of the context
  kExact,    ///< the text that the model generates behind the prompt
};

}  // namespace data
template <>
inline constexpr std::array<std::string_view, 2> kWords<data::TaskKind>{"choices", "exact"};
namespace data {

/// The way from a generated text to an answer.
struct AnswerOptions {
  std::vector<std::string> until{"\n"};  ///< the text ends in front of the first of these
  std::string after;                  ///< the answer is what follows the last of these; empty: the whole text
  std::int64_t max_new_tokens = 256;  ///< longest generated text
};

/// One question.
struct TaskItem {
  std::string context;               ///< what choices continue, or the prompt; with the task's prefix
  std::vector<std::string> choices;  ///< kChoices: at least two, none empty
  std::size_t answer = 0;            ///< kChoices: the right one
  std::vector<std::string> answers;  ///< kExact: each is right
  std::string place;                 ///< file and line, for messages
};

/// Questions of one kind, read from a file.
struct Task {
  std::string name;
  TaskKind kind = TaskKind::kChoices;
  std::vector<TaskItem> items;  ///< at least one
  AnswerOptions answer;         ///< kExact
};

/// Reads the tasks. A file holds JSON lines, and may be compressed with gzip or zstd. A line is {"context",
/// "choices", "answer"}, the last an index from 0, or {"prompt", "answers"}; other members are ignored. All
/// lines are of one kind. Throws Error(kData), which names the line.
[[nodiscard]] std::vector<Task> read_tasks(const EvaluationOptions& options);

/// Identifies the questions and what counts as a right answer.
[[nodiscard]] std::uint32_t task_fingerprint(const Task& task);

}  // namespace data
}  // namespace echelon
