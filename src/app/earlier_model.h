#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::app {

/// The step folders of a run that claim to be committed, newest step first. Opens none, as every rank of a
/// large job asks at its start.
[[nodiscard]] std::vector<std::filesystem::path> commits_of(const Recipe& recipe);

/// The checkpoint or Hugging Face folder that a run goes on from.
struct EarlierModel {
  std::filesystem::path folder;  ///< a step folder, or model.from; empty: there is none
  std::string config;            ///< its config.json, an object; empty: there is none
  bool of_run = false;           ///< its own checkpoint
};

/// The run's newest checkpoint with a readable config.json, else model.from or checkpoint.init_from. Reads no
/// tensors.
[[nodiscard]] EarlierModel earlier_model(const Recipe& recipe);

/// Returns whether a new run uses the special ids of `earlier`, because `earlier` states how text ends.
[[nodiscard]] bool states_ends(const EarlierModel& earlier, const Recipe& recipe);

/// Throws Error(kData) if a new run would train on ids of another tokenizer than that of the model it starts
/// from, or on documents that end otherwise than the model ends text: neither would stop where it should.
void require_same_text(const Recipe& recipe);

}  // namespace echelon::app
