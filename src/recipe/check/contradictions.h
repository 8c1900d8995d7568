#pragma once
#include <string_view>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// Returns whether `recipe` uses `key`, given the values of the keys that select features: `model.kv_heads`
/// is used by Llama models only.
[[nodiscard]] bool is_used(std::string_view key, const Recipe& recipe);

/// Adds conflicts of a model's sizes: heads that do not divide the width, patches that do not divide the
/// image, more parameters than any run can hold.
void find_model_conflicts(const ModelOptions& model, Conflicts& found);

/// Adds conflicts of image data: images for a token model or tokens for an image model, per-channel values
/// for a different number of channels, a crop larger than its image.
void find_image_conflicts(const Recipe& recipe, Conflicts& found);

/// Adds contradictions among the options of sharding, precision, optimizer, schedule and training: a key set
/// to a non-default value that another key makes meaningless, types that an optimizer cannot train, phases
/// that do not fit into the run.
void find_contradictions(const Recipe& recipe, Conflicts& found);

}  // namespace echelon::recipe
