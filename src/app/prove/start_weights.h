#pragma once
#include <filesystem>

#include "app/engine/engine.h"
#include "recipe/recipe.h"

namespace echelon::app {

/// Random weights without special values: norms differ from 1, biases from 0, attention is far from even. The
/// weights that runs begin with would hide a missing norm's weight, bias or adapter. Frozen weights are exact
/// in bf16, so that a run keeps their bits in either type.
[[nodiscard]] Tensors start_weights(const Recipe& recipe);

/// Returns the weights with zeros for every weight in a block, so that the last norm gets the embeddings
/// unchanged.
[[nodiscard]] Tensors without_blocks(Tensors weights, const ModelOptions& model);

/// Returns whether the recipe leaves the tensor unchanged.
[[nodiscard]] bool is_frozen(const Recipe& recipe, const std::string& tensor);

/// Writes them as a checkpoint for checkpoint.init_from: a step folder in `folder`. Throws
/// Error(kCheckpoint).
std::filesystem::path write_start(const Tensors& weights, const Recipe& recipe,
                                  const std::filesystem::path& folder);

}  // namespace echelon::app
