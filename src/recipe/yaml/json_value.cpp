#include "recipe/yaml/json_value.h"

#include "base/str.h"

namespace echelon::recipe {
namespace {

using Json = nlohmann::ordered_json;

struct JsonOf {
  template <class Field>
  Json operator()(Field* field) const {
    return *field;
  }
  Json operator()(ChoiceField field) const { return field.word(); }
  Json operator()(SwitchOrCount* field) const {
    return field->count > 0 ? Json(field->count) : Json(field->on);
  }
  Json operator()(std::vector<SchedulePhase>* phases) const {
    Json list = Json::array();
    for (const SchedulePhase& phase : *phases)
      list.push_back(str(word_of(phase.kind), phase.steps > 0 ? str(" ", phase.steps) : ""));
    return list;
  }
  template <class Value>
  Json operator()(PatternMap<Value>* map) const {
    Json object = Json::object();
    for (const auto& [pattern, value] : *map) {
      if constexpr (std::is_same_v<Value, FloatType>)
        object[pattern] = word_of(value);
      else
        object[pattern] = value;
    }
    return object;
  }
};

}  // namespace

Json json_value(const Key& key, const Recipe& recipe) {
  Recipe copy = recipe;  // Key::slot needs a mutable recipe
  return std::visit(JsonOf(), key.slot(copy));
}

}  // namespace echelon::recipe
