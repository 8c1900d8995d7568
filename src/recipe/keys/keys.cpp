#include "recipe/keys/keys.h"

#include <algorithm>
#include <set>

#include "base/number.h"
#include "base/str.h"
#include "recipe/check/other_names.h"
#include "recipe/translate/equivalents.h"

namespace echelon::recipe {
namespace {

// Shorter text is near to every short name. Longer text is no misspelt name; bounds the cost of edit
// distances.
constexpr std::size_t kShortestMiss = 3;
constexpr std::size_t kLongestName = 40;

/// nearest() with a stricter limit for short words: "bar" is not a misspelt "dir".
std::string near_miss(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() < kShortestMiss || word.size() > kLongestName) return "";
  const std::string near = nearest(word, candidates);
  const std::size_t most = std::max<std::size_t>(1, (word.size() - 1) / 2);
  return near.empty() || edit_distance(word, near) > most ? "" : near;
}

struct Name {
  std::string_view name;
  std::string_view path;
  auto operator<=>(const Name&) const = default;
};

/// The names of keys, their own and those in the trainers whose configurations are translated: of `section`,
/// or of all sections.
std::set<Name> all_names(std::string_view section, bool any_section) {
  std::set<Name> names;
  std::set<std::string> own;
  const auto add = [&](std::string_view name, std::string_view path) {
    if (any_section || parent_of(path) == section) names.insert({name, path});
  };
  for (const Key& key : keys()) {
    const std::string_view path = key.path;
    add(path.substr(path.rfind('.') + 1), path);
    own.insert(leaf_of(path));
  }
  for (std::size_t trainer = 0; trainer < kWords<Trainer>.size(); ++trainer) {
    for (const Equivalent& other : equivalents_of(static_cast<Trainer>(trainer))) {
      for (const std::string_view theirs : words_in(find_key(other.key) == nullptr ? "" : other.theirs)) {
        const std::string_view name = theirs.substr(theirs.rfind('.') + 1);
        if (!name.empty() && !own.contains(std::string(name))) add(name, other.key);
      }
    }
  }
  return names;
}

/// The key that `leaf` names, exactly or, if `may_miss`, nearly; "" if there is none or the name is
/// ambiguous.
std::string only_key(const std::string& leaf, const std::set<Name>& names, bool may_miss) {
  const auto words = mapped<std::string>(names, &Name::name);
  const bool exact = std::ranges::find(words, leaf) != words.end();
  const std::string word = exact ? leaf : may_miss ? near_miss(leaf, words) : "";
  const auto is_meant = [&](const Name& known) { return known.name == word; };
  if (word.empty() || std::ranges::count_if(names, is_meant) != 1) return "";
  return std::string(std::ranges::find_if(names, is_meant)->path);
}

/// Returns whether one of the names in `path` is `word`, or begins or ends with it.
bool has_part(std::string_view path, std::string_view word) {
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
  const auto found = std::ranges::find(keys(), path, &Key::path);
  return found == keys().end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
  return std::ranges::any_of(sections(), [&](const Section& section) { return section.path == path; });
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
  const auto* other = std::ranges::find(kOtherKeys, path, &OtherKey::path);
  if (other != std::end(kOtherKeys)) return std::string(other->key);
  if (section.empty()) {
    const std::string meant = meant_section(leaf);
    if (!meant.empty()) return meant;
  } else if (is_section(section)) {
    const std::string meant = only_key(leaf, all_names(section, false), true);
    if (!meant.empty()) return meant;
    const std::string sub = near_miss(leaf, names_under(section));
    if (!sub.empty()) return str(section, '.', sub);
  }
  // What is named in one section is seldom a misspelt name of another, and these names say nothing alone.
  if (!section.empty() && (leaf == "name" || leaf == "dim" || leaf == "enabled")) return "";
  return only_key(leaf, all_names("", true), section.empty());
}

std::string suggestion_for(std::string_view path) {
  for (const Absent& one : kAbsent) {
    if (has_part(path, one.name)) return std::string(one.instead);
  }
  const std::string meant = meant_by(path);
  if (!meant.empty()) return str("did you mean ", meant, "?");
  const std::string section = parent_of(path);
  if (section.empty() || !is_section(section)) return str("the sections are: ", join(names_under(""), ", "));
  return str(section, " takes: ", join(names_under(section), ", "));
}

}  // namespace echelon::recipe
