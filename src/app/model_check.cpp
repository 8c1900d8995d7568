#include "app/model_check.h"

#include <algorithm>

#include "app/engine/engine.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/json_value.h"
#include "shapes/shapes.h"

namespace echelon::app {
namespace {

bool has_patterns(const recipe::Key& key, const Recipe& recipe) {
  const auto value = recipe::json_value(key, recipe);
  const auto* rule = std::get_if<recipe::Text>(&key.rule);
  const bool takes_patterns = value.is_object() ? key.names == recipe::Text::kPattern
                                                : rule != nullptr && *rule == recipe::Text::kPattern;
  return takes_patterns && value.is_structured() && !value.empty();
}

/// Casts take longer than fp8 saves where matrices are small. A warning, because results are right all the
/// same.
void warn_of_slow_fp8(const Recipe& recipe) {
  constexpr std::int64_t kLeast = 2'000'000'000;
  const auto parameters = parameter_count(recipe.model);
  if (recipe.precision.matmul != Matmul::kFp8 || !parameters || *parameters >= kLeast) return;
  log::warn(
      str("precision.matmul is fp8, but the model has ", human_count(static_cast<std::uint64_t>(*parameters)),
          " parameters: no published run below 2 B gained by fp8; compare `echelon plan` of both values"));
}

}  // namespace

void check_against_model(const LoadedRecipe& loaded) {
  Recipe recipe = loaded.recipe;
  warn_of_slow_fp8(recipe);
  const auto& keys = recipe::keys();
  if (std::ranges::none_of(keys, [&](const auto& key) { return has_patterns(key, recipe); })) return;
  ModelFaults found;
  CheckModelFunction* check = nullptr;
  try {
    check = engine_function<CheckModelFunction>("echelon_engine_check_model");
  } catch (const Error& error) {
    log::warn(str("the recipe's patterns are not checked against the model: ", error.what()));
    return;
  }
  std::string fault;
  if (const int status = check(recipe, found, fault); status != 0)
    throw Error(static_cast<Code>(status), fault);
  std::vector<std::string> lines;
  for (const auto& [key, text] : found) lines.push_back(str(loaded.origins.at(key), ": ", text));
  if (!lines.empty()) throw Error(Code::kUsage, join(lines, "\n"));
}

}  // namespace echelon::app
