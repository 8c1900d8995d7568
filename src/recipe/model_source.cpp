#include "recipe/model_source.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/str.h"
#include "families/model_weights.h"
#include "recipe/check/contradictions.h"
#include "recipe/compare.h"
#include "recipe/keys/keys.h"
#include "recipe/model_presets.h"
#include "recipe/parse.h"
#include "recipe/yaml/value.h"

namespace echelon::recipe {
namespace {

using IsGiven = std::function<bool(const std::string&)>;

ModelSource of_preset(const Recipe& recipe, const IsGiven& is_given) {
  const ModelPreset* preset = find_model_preset(recipe.model.preset);
  if (preset == nullptr) return {};
  ModelSource source{.model = preset->model, .origin = str("preset ", preset->name)};
  const auto kind = is_given("model.kind") ? std::optional(recipe.model.kind) : std::nullopt;
  if (std::string problem = preset_problem(*preset, kind); !problem.empty())
    source.problems.push_back({{"model.preset", "model.kind"}, std::move(problem)});
  return source;
}

/// Returns whether a folder states the key. It does not for adapters, which the recipe adds.
bool is_of_folder(std::string_view key) {
  return key.starts_with("model.") && describes_model(key);
}

bool states_whole_model(const Recipe& recipe, const IsGiven& is_given) {
  return std::ranges::all_of(keys(), [&](const Key& key) {
    return !is_of_folder(key.path) || !is_used(key.path, recipe) || is_given(key.path);
  });
}

ModelSource of_folder(const Recipe& recipe, const IsGiven& is_given) {
  const std::string& folder = recipe.model.from;
  std::error_code ignored;
  if (!std::filesystem::exists(folder, ignored) && states_whole_model(recipe, is_given)) return {};
  ModelSource source{.origin = str("config.json of '", folder, '\''), .is_folder = true};
  Recipe stored;
  try {
    stored = parse_stored_recipe(source.origin, families::model_section(folder));
  } catch (const Error& error) {
    source.problems.push_back({{"model.from"}, str("model.from: ", error.what())});
    return source;
  }
  source.model = stored.model;
  Recipe both = stored;  // with what the recipe states beside it
  Recipe given = recipe;
  for (const Key& key : keys()) {
    if (is_of_folder(key.path) && is_given(key.path)) copy_value(key, given, both);
  }
  for (const Change& change : of_model(changes(stored, both))) {
    source.problems.push_back({{change.key, "model.from"},
                               str(change.key, " is ", change.now, ", but ", change.then, " by ",
                                   source.origin, " (model.from); remove it")});
  }
  return source;
}

}  // namespace

ModelSource model_source(const Recipe& recipe, const IsGiven& is_given, bool reads_folder) {
  if (recipe.model.from.empty()) return of_preset(recipe, is_given);
  return reads_folder ? of_folder(recipe, is_given) : ModelSource{};
}

bool sets(const ModelSource& source, std::string_view key) {
  if (source.origin.empty() || !key.starts_with("model.")) return false;
  return key != "model.preset" && key != "model.from" && !(source.is_folder && key == "model.init_std");
}

}  // namespace echelon::recipe
