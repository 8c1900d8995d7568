#include "app/model_check.h"

#include <algorithm>

#include "app/engine/engine.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/writer.h"

namespace echelon::app {
namespace {

bool has_patterns(const recipe::Key& key, Recipe& recipe) {
  const recipe::Slot slot = key.slot(recipe);
  if (recipe::is_map(slot)) return key.names == recipe::Text::kPattern && !recipe::entries(slot).empty();
  const auto* list = std::get_if<std::vector<std::string>*>(&slot);
  const auto* text = std::get_if<recipe::Text>(&key.rule);
  return list != nullptr && text != nullptr && *text == recipe::Text::kPattern && !(*list)->empty();
}

}  // namespace

void check_against_model(const LoadedRecipe& loaded) {
  Recipe recipe = loaded.recipe;
  const auto& keys = recipe::keys();
  if (std::none_of(keys.begin(), keys.end(), [&](const auto& key) { return has_patterns(key, recipe); }))
    return;
  ModelFaults found;
  CheckModelFunction* check = nullptr;
  try {
    check = engine_function<CheckModelFunction>("echelon_engine_check_model");
  } catch (const Error& error) {
    log::warn(str("the recipe's patterns are not checked against the model: ", error.what()));
    return;
  }
  if (const int status = check(recipe, found); status != 0)
    throw Error(static_cast<Code>(status), found.trouble);
  std::vector<std::string> lines;
  for (const auto& [key, text] : found.faults) lines.push_back(str(loaded.origins.at(key), ": ", text));
  if (!lines.empty()) throw Error(Code::kUsage, join(lines, "\n"));
}

}  // namespace echelon::app
