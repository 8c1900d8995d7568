#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shapes/options.h"

namespace echelon::recipe {

/// A published model: what `model.preset` fills in for the keys that a recipe does not give.
struct ModelPreset {
  std::string name;
  std::string what;    ///< which model, and whose numbers
  ModelOptions model;  ///< keys that its kind does not use have their defaults
};

/// In the order of the reference: by kind, then by size.
[[nodiscard]] const std::vector<ModelPreset>& model_presets();

/// Null when there is none, also for "none".
[[nodiscard]] const ModelPreset* find_model_preset(std::string_view name);

/// The names of those of `kind`.
[[nodiscard]] std::vector<std::string> presets_of(ModelKind kind);

/// Why `preset` contradicts `kind`, where that is given; or "".
[[nodiscard]] std::string preset_problem(const ModelPreset& preset, std::optional<ModelKind> kind);

/// The reference's table of presets, in Markdown.
[[nodiscard]] std::string model_presets_markdown();

}  // namespace echelon::recipe
