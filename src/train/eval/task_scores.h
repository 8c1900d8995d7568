#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "data/tasks/scored_sequences.h"
#include "run/agreed_stop.h"
#include "shard/sharded_model.h"
#include "train/eval/generation_score.h"

namespace echelon {

struct TaskResult {
  std::string name;
  data::TaskKind kind = data::TaskKind::kChoices;
  std::int64_t items = 0;
  /// Shares of the items answered rightly. kChoices: "acc" by the probability of a choice, "acc_norm" by its
  /// logarithm over the choice's characters, "acc_bytes" by that over its bytes of UTF-8. kExact: "exact".
  std::vector<std::pair<std::string, double>> scores;

  /// The score by which the task is judged: the first.
  [[nodiscard]] double score() const { return scores.front().second; }
  /// Standard error of score(), as that of a mean of zeros and ones.
  [[nodiscard]] double standard_error() const;
};

/// What one rank computes at a time.
struct TaskPasses {
  std::int64_t tokens = 4096;  ///< sequences together have at most so many, unless one alone has more
  std::int64_t prompts = 32;   ///< of which texts are generated together
  /// Told before each pass how much of all is done; may be empty.
  std::function<void(std::uint64_t done, std::uint64_t all)> on_pass{};
};

/// Answers the questions on all ranks of `comm`, which is between hosts. The result is the same on every
/// rank. That of kChoices is the same bits for any number of ranks. Returns nothing if `stop`, which may be
/// null, is decided meanwhile. Collective.
[[nodiscard]] std::optional<TaskResult> score_task(ShardedModel& model, const data::EncodedTask& task,
                                                   const TextOptions& text, const TaskPasses& passes,
                                                   Communicator& comm, AgreedStop* stop);

}  // namespace echelon
