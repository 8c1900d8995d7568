#include "recipe/reference.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"
#include "recipe/keys.h"
#include "recipe/load.h"
#include "recipe/value.h"
#include "recipe/writer.h"

namespace echelon::recipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "<!-- keys: made by recipe_docs, do not edit -->\n";
constexpr std::string_view kEnd = "<!-- end of keys -->\n";

std::string type_name(const Key& key) {
  static constexpr std::array<const char*, 5> kNames{"true/false", "integer", "number", "two numbers",
                                                     "text"};
  Recipe recipe;
  return kNames[key.slot(recipe).index()];
}

/// "`pre` (meaning), `post` (meaning)", or the range in words.
std::string allowed(const Key& key) {
  const auto* choices = std::get_if<Choices>(&key.rule);
  if (choices == nullptr) return expected(key);
  std::vector<std::string> values;
  for (const auto& choice : choices->values) values.push_back(str('`', choice.value, "`: ", choice.meaning));
  return join(values, "; ");
}

std::string row(const Key& key) {
  const std::string unit = key.unit.empty() ? "" : str(", ", key.unit);
  return str("| `", key.path, "` | ", type_name(key), unit, " | `", written(key, Recipe()), "` | ",
             allowed(key), " | ", key.meaning, " |\n");
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
    Json values = Json::array();
    for (const auto& choice : choices->values) values.push_back(choice.value == "true");
    return {{"type", "boolean"}, {"enum", values}};
  }
  Json operator()(const std::int64_t*) const {
    const auto& range = std::get<IntegerRange>(key.rule);
    return {{"type", "integer"}, {"minimum", range.low}, {"maximum", range.high}};
  }
  Json operator()(const double*) const { return number_schema(std::get<NumberRange>(key.rule)); }
  Json operator()(const std::array<double, 2>*) const {
    return {{"type", "array"},
            {"items", number_schema(std::get<NumberRange>(key.rule))},
            {"minItems", 2},
            {"maxItems", 2}};
  }
  Json operator()(const std::string*) const {
    Json schema{{"type", "string"}};
    if (const auto* choices = std::get_if<Choices>(&key.rule)) {
      Json values = Json::array();
      for (const auto& choice : choices->values) values.push_back(choice.value);
      schema["enum"] = values;
    } else if (std::get<Text>(key.rule) == Text::kName) {
      schema["pattern"] = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$";
    } else {
      schema["pattern"] = "^([^-~$][^$]*)?$";
    }
    return schema;
  }
};

Json key_schema(const Key& key) {
  Recipe defaults;
  const Slot slot = key.slot(defaults);
  Json schema = std::visit(SchemaOf{key}, slot);
  schema["default"] = std::visit([](const auto* field) { return Json(*field); }, slot);
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
    throw Error(Code::kUsage,
                str("recipe.md has no place for the keys; expected the lines '",
                    kBegin.substr(0, kBegin.size() - 1), "' and '", kEnd.substr(0, kEnd.size() - 1), "'"));
  }
  return str(document.substr(0, begin + kBegin.size()), recipe_reference_markdown(), document.substr(end));
}

}  // namespace echelon::recipe

namespace echelon {

std::string recipe_reference_markdown() {
  std::string out;
  for (const recipe::Section& section : recipe::sections()) {
    out += str("\n### ", section.path, "\n\n", section.meaning, "\n\n");
    out += "| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
    for (const recipe::Key& key : recipe::keys()) {
      if (recipe::parent_of(key.path) == section.path) out += recipe::row(key);
    }
  }
  return out + "\n";
}

std::string recipe_json_schema() {
  using recipe::Json;
  Json root{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Echelon recipe"}};
  root.update(recipe::object_schema("Everything an Echelon run is made from."));
  root["properties"]["include"] = {
      {"type", "string"},
      {"minLength", 1},
      {"description", "One base recipe, relative to this file; keys here win over its keys."}};
  for (const recipe::Section& section : recipe::sections()) {
    recipe::section_schema(root, section.path) = recipe::object_schema(section.meaning);
  }
  for (const recipe::Key& key : recipe::keys()) {
    recipe::section_schema(root, recipe::parent_of(key.path))["properties"][recipe::leaf_of(key.path)] =
        recipe::key_schema(key);
  }
  return root.dump(2) + "\n";
}

}  // namespace echelon
