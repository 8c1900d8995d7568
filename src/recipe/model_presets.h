#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shapes/options.h"

namespace echelon::recipe {

/// A published model. `model.preset` supplies its values for every key of `model` that the recipe does not
/// set.
struct ModelPreset {
  std::string name;
  std::string what;    ///< the model and the source of its sizes
  ModelOptions model;  ///< keys unused by its kind keep their defaults
};

/// All presets in the order of the reference: by kind, then by size.
[[nodiscard]] const std::vector<ModelPreset>& model_presets();

/// Null if no preset has this name; "none" is not a preset.
[[nodiscard]] const ModelPreset* find_model_preset(std::string_view name);

/// Names of the presets of `kind`.
[[nodiscard]] std::vector<std::string> presets_of(ModelKind kind);

/// Returns why `preset` contradicts `kind`, as one line; "" if it does not or `kind` is not given.
[[nodiscard]] std::string preset_problem(const ModelPreset& preset, std::optional<ModelKind> kind);

/// The table of presets in the reference, as Markdown.
[[nodiscard]] std::string model_presets_markdown();

}  // namespace echelon::recipe
