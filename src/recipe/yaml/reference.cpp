#include "recipe/yaml/reference.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"
#include "recipe/keys/keys.h"
#include "recipe/model_presets.h"
#include "recipe/yaml/json_value.h"
#include "recipe/yaml/scalar.h"
#include "recipe/yaml/value.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "<!-- keys: made by recipe_docs, do not edit -->\n";
constexpr std::string_view kEnd = "<!-- end of keys -->\n";

std::string type_name(const Key& key) {
  // In the order of Slot's alternatives.
  static constexpr std::array<const char*, std::variant_size_v<Slot>> kNames{
      "true/false", "integer", "number", "two numbers", "text", "text", "true/false or integer",
      "list",       "numbers", "list",   "map",         "map",  "map",  "map"};
  Recipe recipe;
  return kNames[key.slot(recipe).index()];
}

/// "`pre`: meaning; `post`: meaning", or the range in words.
std::string allowed(const Key& key) {
  const auto* choices = std::get_if<Choices>(&key.rule);
  if (choices == nullptr) return expected(key);
  const auto values = mapped(choices->values, [](const auto& choice) {
    return str('`', choice.value, '`', choice.meaning.empty() ? "" : ": ", choice.meaning);
  });
  Recipe recipe;
  const bool map = is_map(key.slot(recipe));
  return str(map ? "patterns, each with " : "", join(values, map ? " or " : "; "));
}

std::string row(const Key& key) {
  const std::string unit = key.unit.empty() ? "" : str(", ", key.unit);
  return str("| `", key.path, "` | ", type_name(key), unit, " | `", written(key, Recipe()), "` | ",
             allowed(key), " | ", key.meaning, " |\n");
}

Json text_schema(Text kind) {
  Json schema{{"type", "string"}};
  switch (kind) {
    case Text::kName: schema["pattern"] = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"; break;
    case Text::kPath: schema["pattern"] = "^([^-~$][^$]*)?$"; break;
    case Text::kPattern:
      schema.update({{"minLength", 1}, {"maxLength", 200}, {"pattern", "^[A-Za-z0-9._*?![\\]-]+$"}});
      break;
    case Text::kTime:
      schema["pattern"] =
          "^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]*)?)?(Z|\\+00:00))?$";
      break;
    case Text::kPhase: schema["pattern"] = str("^(", join(phase_kinds(), "|"), ")( [1-9][0-9]*)?$"); break;
  }
  return schema;
}

Json range_schema(const IntegerRange& range) {
  return {{"type", "integer"}, {"minimum", range.low}, {"maximum", range.high}};
}

Json word_schema(const Choices& choices) {
  return {{"type", "string"}, {"enum", words_of(choices)}};
}

Json switch_schema(const Choices& choices) {
  Json values = Json::array();
  for (const std::string& word : words_of(choices)) values.push_back(word == "true");
  return {{"type", "boolean"}, {"enum", values}};
}

Json number_schema(const NumberRange& range) {
  Json schema{{"type", "number"}};
  schema[range.low_excluded ? "exclusiveMinimum" : "minimum"] = range.low;
  schema[range.high_excluded ? "exclusiveMaximum" : "maximum"] = range.high;
  return schema;
}

struct SchemaOf {
  const Key& key;
  Json operator()(const bool*) const {
    const auto* choices = std::get_if<Choices>(&key.rule);
    if (choices == nullptr) return {{"type", "boolean"}};
    return switch_schema(*choices);
  }
  Json operator()(const std::int64_t*) const { return range_schema(std::get<IntegerRange>(key.rule)); }
  Json operator()(const SwitchOrCount*) const {
    return {{"anyOf", {{{"type", "boolean"}}, range_schema(std::get<IntegerRange>(key.rule))}}};
  }
  Json operator()(ChoiceField) const { return word_schema(std::get<Choices>(key.rule)); }
  Json operator()(const double*) const { return number_schema(std::get<NumberRange>(key.rule)); }
  Json operator()(const std::array<double, 2>*) const {
    return {{"type", "array"},
            {"items", number_schema(std::get<NumberRange>(key.rule))},
            {"minItems", 2},
            {"maxItems", 2}};
  }
  Json operator()(const std::vector<double>*) const {
    return {{"type", "array"}, {"items", number_schema(std::get<NumberRange>(key.rule))}, {"maxItems", 1000}};
  }
  Json operator()(const std::string*) const {
    if (const auto* choices = std::get_if<Choices>(&key.rule)) return word_schema(*choices);
    return text();
  }
  Json operator()(const std::vector<std::string>*) const {
    return {
        {"type", "array"}, {"items", text_schema(Text::kPattern)}, {"maxItems", 1000}, {"uniqueItems", true}};
  }
  Json operator()(const std::vector<SchedulePhase>*) const {
    return {{"type", "array"}, {"items", text_schema(Text::kPhase)}, {"maxItems", 1000}};
  }
  Json operator()(const PatternMap<bool>*) const {
    return map_schema(switch_schema(std::get<Choices>(key.rule)));
  }
  Json operator()(const PatternMap<double>*) const {
    return map_schema(number_schema(std::get<NumberRange>(key.rule)));
  }
  Json operator()(const PatternMap<FloatType>*) const {
    return map_schema(word_schema(std::get<Choices>(key.rule)));
  }
  Json operator()(const PatternMap<std::string>*) const { return map_schema(text()); }

  [[nodiscard]] Json text() const {
    const auto* kind = std::get_if<Text>(&key.rule);
    return kind == nullptr ? Json{{"type", "string"}} : text_schema(*kind);
  }
  [[nodiscard]] Json map_schema(const Json& value) const {
    return {{"type", "object"},
            {"propertyNames", text_schema(key.names)},
            {"maxProperties", 1000},
            {"additionalProperties", value}};
  }
};

Json key_schema(const Key& key) {
  Recipe defaults;
  Json schema = std::visit(SchemaOf{key}, key.slot(defaults));
  schema["default"] = json_value(key, defaults);
  schema["description"] = key.unit.empty() ? key.meaning : str(key.meaning, " Unit: ", key.unit, ".");
  return schema;
}

Json object_schema(const std::string& description) {
  return {{"type", "object"},
          {"description", description},
          {"additionalProperties", false},
          {"properties", Json::object()}};
}

/// The schema object of section `path` ("" is the root).
Json& section_schema(Json& root, const std::string& path) {
  if (path.empty()) return root;
  return section_schema(root, parent_of(path))["properties"][leaf_of(path)];
}

}  // namespace

std::string with_reference(std::string_view document) {
  const std::size_t begin = document.find(kBegin);
  const std::size_t end = document.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    throw Error(Code::kUsage, "recipe.md has no place for the keys; expected the lines '",
                kBegin.substr(0, kBegin.size() - 1), "' and '", kEnd.substr(0, kEnd.size() - 1), "'");
  }
  return str(document.substr(0, begin + kBegin.size()), reference_markdown(), document.substr(end));
}

std::string reference_markdown() {
  std::string out;
  for (const Section& section : sections()) {
    out += str("\n### ", section.path, "\n\n", section.meaning, "\n\n");
    out += "| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
    for (const Key& key : keys()) {
      if (parent_of(key.path) == section.path) out += row(key);
    }
    if (section.path == "model") out += str("\n#### Presets\n\n", model_presets_markdown());
  }
  return out + "\n";
}

std::string json_schema() {
  Json root{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Echelon recipe"}};
  root.update(object_schema("Everything an Echelon run is made from."));
  root["properties"]["include"] = {
      {"type", "string"},
      {"minLength", 1},
      {"description",
       "One base recipe, or a run folder whose recipe is taken without run.name and run.dir, relative to "
       "this file; keys here win over its keys."}};
  for (const Section& section : sections()) {
    section_schema(root, section.path) = object_schema(section.meaning);
  }
  for (const Key& key : keys()) {
    section_schema(root, parent_of(key.path))["properties"][leaf_of(key.path)] = key_schema(key);
  }
  return root.dump(2) + "\n";
}

}  // namespace echelon::recipe
