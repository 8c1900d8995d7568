#include "app/argument_values.h"

#include <variant>

#include "recipe/builtin.h"
#include "recipe/keys/keys.h"
#include "report/record/run_record.h"

namespace echelon::app {
namespace {

std::vector<Candidate> builtin_names() {
  std::vector<Candidate> found;
  for (const recipe::BuiltinRecipe& each : recipe::builtin_recipes())
    found.push_back({std::string(each.name), recipe::summary(each)});
  return found;
}

std::vector<Candidate> recipes(const std::string& begun) {
  std::vector<Candidate> found = paths_that_begin(
      begun, [](const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); });
  const std::vector<Candidate> names = builtin_names();
  found.insert(found.end(), names.begin(), names.end());
  return found;
}

std::vector<Candidate> values_of(const recipe::Key& key) {
  std::vector<Candidate> found;
  Recipe any;
  if (const auto* choices = std::get_if<recipe::Choices>(&key.rule)) {
    for (const auto& choice : choices->values) found.push_back({choice.value, choice.meaning});
  } else if (std::holds_alternative<bool*>(key.slot(any))) {
    found = {{"true", ""}, {"false", ""}};
  }
  return found;
}

/// Sections, behind a section's point its keys, behind '=' the values of a key.
std::vector<Candidate> overrides(const std::string& begun) {
  std::vector<Candidate> found;
  const std::size_t equals = begun.find('=');
  if (equals != begun.npos) {
    const recipe::Key* key = recipe::find_key(begun.substr(0, equals));
    if (key != nullptr) found = values_of(*key);
    for (Candidate& candidate : found) candidate.text.insert(0, begun, 0, equals + 1);
  } else if (begun.find('.') == begun.npos) {
    for (const recipe::Section& section : recipe::sections())
      if (section.path.find('.') == section.path.npos) found.push_back({section.path + '.', section.meaning});
  } else {
    for (const recipe::Key& key : recipe::keys()) found.push_back({key.path + '=', key.meaning});
  }
  return found;
}

}  // namespace

std::vector<Candidate> argument_values(const std::string& name, const std::string& begun) {
  if (name == "recipe" || name == "other_recipe") return recipes(begun);
  if (name == "name") return builtin_names();
  if (name == "overrides") return overrides(begun);
  if (name == "run" || name == "runs" || name == "checkpoint")
    return paths_that_begin(begun, [](const std::string& path) { return report::holds_run(path); });
  return {};
}

}  // namespace echelon::app
