#pragma once
#include <filesystem>

#include "app/engine/engine.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// Random weights of which none is special: norms differ from 1, biases from 0, attention is far from even.
/// With those that runs begin with, a norm's weight, a bias or an adapter that is left out would not show.
/// Frozen weights are numbers that bf16 has, so that a run keeps their bits in either type.
[[nodiscard]] Tensors start_weights(const Recipe& recipe);

/// Zeros for all that is in a block, so that the last norm gets the embeddings as they are.
[[nodiscard]] Tensors without_blocks(Tensors weights, const ModelOptions& model);

/// Whether the recipe leaves the tensor as it is.
[[nodiscard]] bool is_frozen(const Recipe& recipe, const std::string& tensor);

/// Writes them as a checkpoint for checkpoint.init_from: a step folder in `folder`. Throws
/// Error(kCheckpoint).
std::filesystem::path write_start(const Tensors& weights, const Recipe& recipe,
                                  const std::filesystem::path& folder);

}  // namespace echelon::app
