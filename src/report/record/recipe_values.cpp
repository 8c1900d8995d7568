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

class Walk {
 public:
  explicit Walk(std::string_view yaml) : origins_(named_origins(yaml)) {}
  void take(const Node& node, const std::string& name) {
    if (node.kind == Node::Kind::kMap && !node.items.empty()) {
      for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
        take(node.items[i + 1], name.empty() ? node.items[i].text : str(name, ".", node.items[i].text));
      return;
    }
    if (name.empty() || node.kind == Node::Kind::kBroken) return;
    const auto origin = origins_.find(node.at.line);
    values.push_back({name, text_of(node), origin == origins_.end() ? "" : origin->second});
  }
  std::vector<RecipeValue> values;

 private:
  std::map<int, std::string> origins_;
};

}  // namespace

std::vector<RecipeValue> recipe_values(std::string_view yaml, bool& complete) {
  recipe::Faults faults;
  const recipe::Document document = recipe::parse_document(yaml, 0, faults);
  complete = document.complete && document.syntax_error.empty() && faults.size() == 0 &&
             document.root.kind == Node::Kind::kMap;
  Walk walk(yaml);
  walk.take(document.root, "");
  return std::move(walk.values);
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
