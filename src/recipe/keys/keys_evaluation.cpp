#include "recipe/keys/keys_table.h"

namespace echelon::recipe {

std::vector<Key> evaluation_keys() {
  return {
      {ECHELON_KEY(evaluation.tasks), Text::kPath, "",
       "Map of names to files of questions, such as `{piqa: data/piqa.jsonl}`. Metrics are called "
       "`eval/NAME/SCORE`.",
       Text::kName},
      {ECHELON_KEY(evaluation.prefix), Text::kPath, "",
       "Map of tasks to files whose text stands in front of every question of the task: solved examples.",
       Text::kName},
      {ECHELON_KEY(evaluation.until), kAny, "",
       "Map of tasks with generated answers to the text in front of which an answer ends. Else: a line feed.",
       Text::kName},
      {ECHELON_KEY(evaluation.after), kAny, "",
       "Map of tasks with generated answers to the text behind which the answer stands, such as `####`. "
       "Else: all that is generated.",
       Text::kName},
      {ECHELON_KEY(evaluation.limit), IntegerRange{0, 1'000'000'000}, "items",
       "Items of each task, from the start of its file. 0: all."},
      {ECHELON_KEY(evaluation.max_new_tokens), IntegerRange{1, 16'777'216}, "tokens",
       "Longest generated answer."},
      {ECHELON_KEY(evaluation.every_steps), IntegerRange{0, kMaxSteps}, "optimizer steps",
       "Interval of evaluations. There is always one after the last step. 0: that one alone."},
      {ECHELON_KEY(evaluation.max_share), NumberRange{0.0, 1.0, true, false}, "",
       "Largest share of the run's time that evaluations take. One that would exceed it is left out, but for "
       "the first of a start and that after the last step."},
      {ECHELON_KEY(evaluation.best), kAny, "",
       "Task by whose score the best step is chosen (`acc`, or `exact` for generated answers). Empty: by the "
       "validation loss."},
  };
}

}  // namespace echelon::recipe
