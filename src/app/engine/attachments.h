#pragma once
#include <map>
#include <string>

#include "model/model.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// The files that a run's checkpoints carry, so that they can be sampled from and exported: recipe.yaml, the
/// model's config.json, in which the special ids are those of the data's tokenizer, and that tokenizer; a
/// sentencepiece model also as tokenizer.json, where it has one. Without a tokenizer the ids are those of the
/// run's last checkpoint, or of the one it starts from: an import's. Throws Error(kData).
[[nodiscard]] std::map<std::string, std::string> attachments_of(const Recipe& recipe, const Model& model);

}  // namespace echelon::app
