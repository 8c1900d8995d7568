#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "text/tokenizer.h"
#include "train/eval/run_evaluation.h"

namespace echelon::app {

/// The tokenizer of a run's data.
struct RunTexts {
  std::string path;                            ///< of the tokenizer; empty: there is none
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: there is none
  std::vector<std::int32_t> turn_ends;         ///< of chats: what ends a turn; empty: it is not known
};

/// Returns whether the ranks of a run turn ids into texts, in validation or evaluation.
[[nodiscard]] bool asks_for_texts(const Recipe& recipe);

/// Empty for models of images. Throws Error(kData), also if the recipe asks for texts and there is no
/// tokenizer.
[[nodiscard]] RunTexts run_texts(const Recipe& recipe);

/// The files stored in every checkpoint of a run (name -> content), so that it can be sampled from and
/// exported: recipe.yaml, the model's config.json, and the data's tokenizer (a sentencepiece model also as
/// tokenizer.json, if there is one), with the template of chats. It is logged if no token is known to end
/// turns of the chats. Throws Error(kData).
[[nodiscard]] std::map<std::string, std::string> attachments_of(const Recipe& recipe, const RunTexts& texts);

/// Sets the special ids in a config.json, and returns those that end a text. They are those of `earlier`, the
/// config.json of what the run goes on from (empty: none), if it states ends or the data have no tokenizer;
/// else those of the data. The tokens that end turns of the chats are always among the ends.
std::vector<std::int64_t> set_special_ids(std::string& config, const std::string& earlier,
                                          const RunTexts& texts);

/// The tasks of the recipe, encoded; null if it has none. A pass of an evaluation has the tokens of a
/// micro-batch, so it needs no more memory than training. Throws Error(kData).
[[nodiscard]] std::unique_ptr<RunEvaluation> evaluation_of(const Recipe& recipe, const RunTexts& texts);

}  // namespace echelon::app
