#include "report/record/recipe_values.h"

#include <algorithm>

#include "base/str.h"
#include "recipe/load.h"
#include "recipe/yaml/document.h"

namespace echelon::report {
namespace {

using recipe::Node;

std::string text_of(const Node& node) {
  if (node.kind == Node::Kind::kScalar) return node.quoted ? str('"', node.text, '"') : node.text;
  if (node.kind == Node::Kind::kMap) return "{}";
  if (node.kind != Node::Kind::kList) return "";
  return str("[", join(mapped(node.items, text_of), ", "), "]");
}

using Origins = std::map<int, std::string>;  ///< by line

/// Adds the values at and below the node of key `name`.
void add_values(const Node& node, const std::string& name, const Origins& origins,
                std::vector<RecipeValue>& values) {
  if (node.kind == Node::Kind::kMap && !node.items.empty()) {
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
      add_values(node.items[i + 1], name.empty() ? node.items[i].text : str(name, ".", node.items[i].text),
                 origins, values);
    return;
  }
  if (name.empty() || node.kind == Node::Kind::kBroken) return;
  const auto origin = origins.find(node.at.line);
  values.push_back({name, text_of(node), origin == origins.end() ? "" : origin->second});
}

}  // namespace

std::vector<RecipeValue> recipe_values(std::string_view yaml, bool& complete) {
  recipe::Faults faults;
  const recipe::Document document = recipe::parse_document(yaml, 0, faults);
  complete = document.complete && document.syntax_error.empty() && faults.size() == 0 &&
             document.root.kind == Node::Kind::kMap;
  std::vector<RecipeValue> values;
  add_values(document.root, "", named_origins(yaml), values);
  return values;
}

std::vector<Difference> differences(const std::vector<std::vector<RecipeValue>>& recipes) {
  std::vector<Difference> found;
  for (std::size_t run = 0; run < recipes.size(); ++run) {
    for (const RecipeValue& value : recipes[run]) {
      auto at = std::ranges::find(found, value.key, &Difference::key);
      if (at == found.end())
        at = found.insert(found.end(), {value.key, std::vector<std::string>(recipes.size())});
      at->values[run] = value.value;
    }
  }
  std::erase_if(found, [](const Difference& d) {
    return std::ranges::all_of(d.values, [&](const std::string& v) { return v == d.values[0]; });
  });
  return found;
}

}  // namespace echelon::report
