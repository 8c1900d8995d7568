#include "recipe/yaml/json_value.h"

#include "recipe/yaml/scalar.h"

namespace echelon::recipe {
namespace {

using Json = nlohmann::ordered_json;

/// A map's values are texts in the recipe; numbers and switches are none in JSON.
Json map_value(const Rule& rule, const std::string& text) {
  double number = 0;
  if (std::holds_alternative<NumberRange>(rule) && read_number(text, number).empty()) return number;
  if (text == "true" || text == "false") return text == "true";
  return text;
}

}  // namespace

Json json_value(const Key& key, const Recipe& recipe) {
  Recipe copy = recipe;  // the accessor is for writing
  const Slot slot = key.slot(copy);
  if (const auto* const* integer = std::get_if<std::int64_t*>(&slot)) {
    const bool is_switch = std::holds_alternative<SwitchOrInteger>(key.rule) && **integer < 2;
    return is_switch ? Json(**integer == 1) : Json(**integer);
  }
  if (const auto* const* map = std::get_if<PatternMap*>(&slot)) {
    Json object = Json::object();
    for (const auto& [pattern, text] : **map) object[pattern] = map_value(key.rule, text);
    return object;
  }
  return std::visit([](const auto* field) { return Json(*field); }, slot);
}

}  // namespace echelon::recipe
