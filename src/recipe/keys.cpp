#include "recipe/keys.h"

#include <algorithm>

#include "base/str.h"

namespace echelon::recipe {
namespace {

/// The key that most likely was meant, by its name alone: the same name elsewhere, a name from another
/// trainer, or a near miss.
std::string nearest_key(std::string_view leaf) {
  for (const Key& key : keys()) {
    if (leaf_of(key.path) == leaf) return key.path;
  }
  for (const Key& key : keys()) {
    const auto& others = key.also_known_as;
    if (std::find(others.begin(), others.end(), leaf) != others.end()) return key.path;
  }
  std::vector<std::string> leaves;
  for (const Key& key : keys()) leaves.push_back(leaf_of(key.path));
  const std::string near = nearest(leaf, leaves);
  const auto found = std::find(leaves.begin(), leaves.end(), near);
  return found == leaves.end() ? "" : keys()[static_cast<std::size_t>(found - leaves.begin())].path;
}

}  // namespace

const Key* find_key(std::string_view path) {
  const auto found =
      std::find_if(keys().begin(), keys().end(), [&](const Key& key) { return key.path == path; });
  return found == keys().end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
  return std::any_of(sections().begin(), sections().end(),
                     [&](const Section& section) { return section.path == path; });
}

std::vector<std::string> names_under(std::string_view section) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view path) {
    if (parent_of(path) == section) names.push_back(leaf_of(path));
  };
  for (const Key& key : keys()) add(key.path);
  for (const Section& sub : sections()) add(sub.path);
  return names;
}

std::string parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : std::string(path.substr(0, dot));
}

std::string leaf_of(std::string_view path) {
  return std::string(path.substr(path.rfind('.') + 1));
}

std::string suggestion_for(std::string_view path) {
  const std::string section = parent_of(path);
  const std::string leaf = leaf_of(path);
  const std::string prefix = section.empty() ? "" : section + ".";
  // In the same section first: another trainer's name, then a near miss.
  for (const Key& key : keys()) {
    const auto& others = key.also_known_as;
    if (parent_of(key.path) == section && std::find(others.begin(), others.end(), leaf) != others.end()) {
      return str("did you mean ", key.path, "?");
    }
  }
  const bool known = section.empty() || is_section(section);
  const std::string near = known ? nearest(leaf, names_under(section)) : "";
  if (!near.empty()) return str("did you mean ", prefix, near, "?");
  const std::string elsewhere = nearest_key(leaf);
  if (!elsewhere.empty()) return str("did you mean ", elsewhere, "?");
  if (section.empty() || !known) return str("the sections are: ", join(names_under(""), ", "));
  return str(section, " takes: ", join(names_under(section), ", "));
}

}  // namespace echelon::recipe
