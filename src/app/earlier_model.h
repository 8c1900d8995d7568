#pragma once
#include <filesystem>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::app {

/// The step folders of a run that claim to be committed, newest step first. Opens none, as every rank of a
/// large job asks at its start.
[[nodiscard]] std::vector<std::filesystem::path> commits_of(const Recipe& recipe);

/// Throws Error(kData) if a new run would train on ids of another tokenizer than that of the model it starts
/// from, or on documents that end otherwise than the model ends text: neither would stop where it should.
void require_same_text(const Recipe& recipe);

}  // namespace echelon::app
