#pragma once
#include <cstdint>
#include <string>

#include "base/options/patterns.h"

namespace echelon {

/// Recipe section `evaluation`. Names of tasks are no patterns.
struct EvaluationOptions {
  PatternMap<std::string> tasks;      ///< name -> file of questions (task.h); none: no evaluation
  PatternMap<std::string> prefix;     ///< task -> file with solved examples
  PatternMap<std::string> until;      ///< task -> text that ends an answer; else a line feed
  PatternMap<std::string> after;      ///< task -> text in front of an answer
  std::int64_t limit = 0;             ///< items of each task; 0: all
  std::int64_t max_new_tokens = 256;  ///< of an answer
  std::int64_t every_steps = 0;       ///< 0: only after the last step
  double max_share = 0.1;             ///< of the time of training; an evaluation beyond it is left out
  std::string best;                   ///< task that checkpoint.keep_best goes by; empty: validation loss
};

}  // namespace echelon
