#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/earlier_model.h"
#include "model/model.h"
#include "recipe/recipe.h"
#include "text/tokenizer.h"
#include "train/eval/generation_score.h"
#include "train/eval/run_evaluation.h"

namespace echelon::app {

/// The tokenizer of a run's data, and what the model that it goes on from says of the ends of texts.
struct RunTexts {
  std::string path;                            ///< of the tokenizer; empty: there is none
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null: there is none
  EarlierModel earlier;
  bool states_ends = false;             ///< the ids of `earlier` are used
  std::vector<std::int32_t> turn_ends;  ///< of chats: what ends a turn; empty: it is not known
  std::vector<std::int32_t> ends;       ///< each ends a text; `eos_token_id` of the run's checkpoints
};

/// Empty for models of images. Throws Error(kData).
[[nodiscard]] RunTexts run_texts(const Recipe& recipe);

/// The files stored in every checkpoint of a run (name -> content), so that it can be sampled from and
/// exported: recipe.yaml, the model's config.json, and the data's tokenizer (a sentencepiece model also as
/// tokenizer.json, if there is one), with the template of chats. The special ids in config.json come from the
/// run's newest checkpoint, or from the one it starts from (an import); if neither states any, from the data.
/// The tokens that end turns of the chats are always among the ends; it is logged if none is known. Throws
/// Error(kData).
[[nodiscard]] std::map<std::string, std::string> attachments_of(const Recipe& recipe, const Model& model,
                                                                const RunTexts& texts);

/// Returns how validation turns generated ids into texts, which end at every id that the run's checkpoints
/// state. Without a tokenizer if validation generates nothing. Throws Error(kData) if it needs a tokenizer
/// and there is none.
[[nodiscard]] TextOptions validation_text(const DataOptions& data, const RunTexts& texts);

/// The tasks of the recipe, encoded; null if it has none. A pass of an evaluation has the tokens of a
/// micro-batch, so it needs no more memory than training. Throws Error(kData).
[[nodiscard]] std::unique_ptr<RunEvaluation> evaluation_of(const Recipe& recipe, const RunTexts& texts);

}  // namespace echelon::app
