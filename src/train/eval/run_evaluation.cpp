#include "train/eval/run_evaluation.h"

#include <algorithm>

#include "base/log.h"
#include "base/steady_time.h"
#include "comm/exchange.h"

namespace echelon {

RunEvaluation::RunEvaluation(const EvaluationOptions& options, const Tokenizer& tokenizer,
                             const data::ModelLimits& limits, const TaskPasses& passes)
    : options_(options),
      passes_(passes),
      tasks_(data::encode_tasks(options, tokenizer, limits)),
      share_(options.max_share, steady_now_s()) {}

bool RunEvaluation::due(std::int64_t step, std::int64_t steps) const {
  return step == steps || (options_.every_steps > 0 && step % options_.every_steps == 0);
}

std::optional<std::vector<TaskResult>> RunEvaluation::run(ShardedModel& model, const TextOptions& text,
                                                          Communicator& comm, AgreedStop& stop,
                                                          bool may_skip) {
  const double began_s = steady_now_s();
  std::vector<TaskResult> results;
  // The ranks' clocks differ, so one of them decides.
  if (may_skip && !broadcast_value(comm, share_.fits(began_s), "evaluation")) {
    if (comm.rank() == 0)
      log::info("an evaluation is left out: it would exceed evaluation.max_share of the run's time");
    return results;
  }
  for (const data::EncodedTask& task : tasks_) {
    std::optional<TaskResult> result = score_task(model, task, text, passes_, comm, &stop);
    if (!result) return std::nullopt;
    results.push_back(std::move(*result));
  }
  share_.took(steady_now_s() - began_s);
  return results;
}

std::uint32_t RunEvaluation::best_fingerprint() const {
  const auto best = std::find_if(tasks_.begin(), tasks_.end(),
                                 [this](const auto& one) { return one.task.name == options_.best; });
  return data::task_fingerprint(best->task);
}

}  // namespace echelon
