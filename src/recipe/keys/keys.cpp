#include "recipe/keys/keys.h"

#include <algorithm>

#include "base/str.h"
#include "recipe/check/other_names.h"

namespace echelon::recipe {
namespace {

// Longer text is no misspelt name; bounds the cost of edit distances.
constexpr std::size_t kLongestName = 40;

/// nearest() with a stricter limit for short words: "bar" is not a misspelt "dir".
std::string near_miss(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() > kLongestName) return "";
  const std::string near = nearest(word, candidates);
  const std::size_t most = std::max<std::size_t>(1, (word.size() - 1) / 2);
  return near.empty() || edit_distance(word, near) > most ? "" : near;
}

/// The names of keys, their own and those in other trainers: of `section`, or of all sections.
std::vector<OtherName> all_names(std::string_view section, bool any_section) {
  std::vector<OtherName> names;
  for (const Key& key : keys()) {
    const std::string_view path = key.path;
    if (any_section || parent_of(path) == section) names.push_back({path.substr(path.rfind('.') + 1), path});
  }
  for (const OtherName& other : other_names()) {
    if (any_section || parent_of(other.path) == section) names.push_back(other);
  }
  return names;
}

/// The key that `leaf` names, exactly or nearly; "" if there is none or the name is ambiguous.
std::string only_key(const std::string& leaf, const std::vector<OtherName>& names) {
  std::vector<std::string> words;
  for (const OtherName& known : names) words.emplace_back(known.name);
  const bool exact = std::find(words.begin(), words.end(), leaf) != words.end();
  const std::string word = exact ? leaf : near_miss(leaf, words);
  if (word.empty() || std::count(words.begin(), words.end(), word) != 1) return "";
  return std::string(
      names[static_cast<std::size_t>(std::find(words.begin(), words.end(), word) - words.begin())].path);
}

/// Returns whether one of the names in `path` is `word`, or begins or ends with it.
bool has_word(std::string_view path, std::string_view word) {
  for (std::size_t at = path.find(word); at != path.npos; at = path.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    constexpr std::string_view kBorders = "._-";
    if ((at == 0 || kBorders.find(path[at - 1]) != kBorders.npos) &&
        (end == path.size() || kBorders.find(path[end]) != kBorders.npos))
      return true;
  }
  return false;
}

/// The section whose name is a prefix of `word` ("optimizer" -> "optim") or similar to it.
std::string meant_section(const std::string& word) {
  const std::vector<std::string> names = names_under("");
  for (const std::string& name : names) {
    if (word.size() > name.size() && word.starts_with(name)) return name;
  }
  return near_miss(word, names);
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

std::string meant_by(std::string_view path) {
  const std::string section = parent_of(path);
  const std::string leaf = leaf_of(path);
  if (leaf.empty()) return "";
  if (section.empty()) {
    const std::string meant = meant_section(leaf);
    if (!meant.empty()) return meant;
  } else if (is_section(section)) {
    const std::string meant = only_key(leaf, all_names(section, false));
    if (!meant.empty()) return meant;
    const std::string sub = near_miss(leaf, names_under(section));
    if (!sub.empty()) return str(section, '.', sub);
  }
  return only_key(leaf, all_names("", true));
}

std::string suggestion_for(std::string_view path) {
  for (const Absent& one : absent()) {
    if (has_word(path, one.name)) return std::string(one.instead);
  }
  const std::string meant = meant_by(path);
  if (!meant.empty()) return str("did you mean ", meant, "?");
  const std::string section = parent_of(path);
  if (section.empty() || !is_section(section)) return str("the sections are: ", join(names_under(""), ", "));
  return str(section, " takes: ", join(names_under(section), ", "));
}

}  // namespace echelon::recipe
