#include "recipe/parse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "recipe/characters.h"
#include "recipe/check.h"
#include "recipe/document.h"
#include "recipe/faults.h"
#include "recipe/keys.h"
#include "recipe/value.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxIncludes = 8;

/// One parse from texts to recipe. Later layers win: included file, file, command line.
class Parser {
 public:
  explicit Parser(const ReadFile& read_include) : read_include_(read_include) {}

  void read_file(const std::string& name, std::string_view text) {
    const std::filesystem::path path = std::filesystem::path(name).lexically_normal();
    chain_.push_back(path);
    const std::size_t source = sources_.add_file(name);
    const std::string clean = check_characters(text, source, faults_);
    std::optional<Node> root = parse_document(clean, source, faults_);
    if (!root || root->kind == Node::Kind::kNull) {
      if (faults_.size() == 0)
        faults_.add({source, 1, 1}, "the recipe is empty; expected sections such as model: and train:");
      return;
    }
    if (root->kind != Node::Kind::kMap) {
      if (root->kind == Node::Kind::kBroken) return;
      faults_.add(
          root->at,
          str(root->kind == Node::Kind::kList ? "a list" : shown(root->text),
              " where the recipe's sections belong; expected 'section:' lines such as model: and train:"));
      return;
    }
    layers_.push_back(std::move(*root));
    follow_include(layers_.back(), path);
  }

  /// Stores every value of the files read; the innermost base first.
  void apply_files() {
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) apply_section("", *layer);
  }

  void apply_override(const std::string& argument) {
    const Position at{sources_.add_override(argument), 1, 1};
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0) {
      return faults_.add(at, "not an override; expected key.path=value such as optim.lr=1e-3");
    }
    if (const std::string problem = first_character_problem(argument); !problem.empty()) {
      return faults_.add(at, str("a character in it ", problem));
    }
    const std::string path = argument.substr(0, equals);
    if (path == "include")
      return faults_.add(at, "include belongs in the recipe file, not on the command line");
    if (is_section(path)) {
      return faults_.add(at, str(path, ": names a whole section; set its keys one by one, such as ", path,
                                 '.', names_under(path).front(), "=value"));
    }
    const Key* key = find_key(path);
    if (key == nullptr) return faults_.add(at, str(path, ": no such key; ", suggestion_for(path)));
    if (const std::optional<Node> value = override_value(std::string_view(argument).substr(equals + 1), at)) {
      store(*key, *value, at);
    }
  }

  LoadedRecipe finish() {
    check_conflicts();
    faults_.raise_if_any(sources_);
    if (recipe_.run.dir.empty()) recipe_.run.dir = "runs/" + recipe_.run.name;
    LoadedRecipe loaded{recipe_, {}};
    for (const Key& key : keys()) {
      const auto given = given_.find(key.path);
      loaded.origins[key.path] = given == given_.end() ? "default" : sources_.origin(given->second);
    }
    return loaded;
  }

 private:
  void follow_include(const Node& root, const std::filesystem::path& path) {
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const Node& value = root.items[i + 1];
      if (root.items[i].text != "include" || value.kind == Node::Kind::kBroken) continue;
      if (value.kind != Node::Kind::kScalar || value.text.empty()) {
        faults_.add(value.kind == Node::Kind::kNull ? root.items[i].at : value.at,
                    "include: expected the path of one recipe file, relative to this one");
      } else if (const std::string problem = first_character_problem(value.text); !problem.empty()) {
        faults_.add(value.at, str("include: ", shown(value.text), " has a character that ", problem));
      } else {
        include(value, path.parent_path() / value.text);
      }
      return;  // a second one is a duplicate key, reported with all others
    }
  }

  void include(const Node& value, const std::filesystem::path& target) {
    const std::filesystem::path path = target.lexically_normal();
    if (std::find(chain_.begin(), chain_.end(), path) != chain_.end()) {
      return faults_.add(
          value.at,
          str("include: ", shown(path.string()),
              " is already part of this recipe; a file cannot include itself, directly or through others"));
    }
    if (chain_.size() > kMaxIncludes) {
      return faults_.add(value.at, str("include: more than ", kMaxIncludes,
                                       " files deep; put the keys together in fewer files"));
    }
    try {
      const std::string text = read_include_(path);
      read_file(path.string(), text);
    } catch (const Error& error) {
      faults_.add(value.at,
                  str("include: ", error.what(), "; the path is relative to the file that includes it"));
    }
  }

  void apply_section(const std::string& section, const Node& map) {
    const std::string prefix = section.empty() ? "" : section + ".";
    std::map<std::string, Position> seen;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      const Node& key = map.items[i];
      if (key.kind == Node::Kind::kBroken) continue;
      if (key.kind != Node::Kind::kScalar || key.text.empty()) {
        faults_.add(key.at, str(section.empty() ? "" : section + ": ",
                                "this is not a key; expected a name before the ':'"));
        continue;
      }
      const std::string path = prefix + key.text;
      const auto [first, is_new] = seen.emplace(key.text, key.at);
      if (!is_new) {
        faults_.add(key.at, str(safe(path), ": given twice; first on line ", first->second.line, "; ",
                                is_section(path) ? "put both together" : "remove one"));
      }
      // The second value is checked too, so that all mistakes show; the run does not start anyway.
      if (section.empty() && key.text == "include") continue;
      apply_entry(path, key, map.items[i + 1]);
    }
  }

  void apply_entry(const std::string& path, const Node& key, const Node& value) {
    if (const Key* known = find_key(path)) {
      store(*known, value, value.kind == Node::Kind::kNull ? key.at : value.at);
    } else if (is_section(path)) {
      section_positions_.try_emplace(path, key.at);
      if (value.kind == Node::Kind::kMap) return apply_section(path, value);
      if (value.kind == Node::Kind::kBroken) return;
      const bool null = value.kind == Node::Kind::kNull;
      faults_.add(null ? key.at : value.at,
                  str(path, ": ", null ? "no keys given" : "a value where a section belongs",
                      "; expected keys such as ", path, '.', names_under(path).front(),
                      null ? "; remove the line for all defaults" : ""));
    } else if (key.text == "<<") {
      faults_.add(
          key.at,
          "merge keys (<<) are not allowed; write the keys out, or use include: for a whole base recipe");
    } else {
      faults_.add(key.at, str(safe(path), ": ", unknown_key(path, key.text)));
    }
  }

  [[nodiscard]] static std::string unknown_key(const std::string& path, const std::string& name) {
    if (const std::size_t colon = name.find(':'); colon != std::string::npos && colon > 0) {
      return "no such key; a space is missing after the ':'";
    }
    if (find_key(path.substr(path.find(name))) != nullptr && name.find('.') != std::string::npos) {
      return str("dotted names are for the command line; here write ", leaf_of(name), ": inside ",
                 parent_of(name), ":");
    }
    return str(parent_of(path).empty() ? "no such section; " : "no such key; ", suggestion_for(path));
  }

  /// A key path for a message: as it is when it is made of ordinary characters, else quoted.
  [[nodiscard]] static std::string safe(const std::string& path) {
    const std::string quoted = shown(path);
    return quoted == "'" + path + "'" ? path : quoted;
  }

  void store(const Key& key, const Node& value, const Position& at) {
    if (value.kind == Node::Kind::kBroken) {
      broken_.insert(key.path);
      return;
    }
    const std::string problem = assign(key, value, recipe_);
    if (!problem.empty()) {
      faults_.add(at, str(key.path, ": ", problem));
      broken_.insert(key.path);
      return;
    }
    broken_.erase(key.path);
    given_[key.path] = at;
  }

  /// The part after '='. Quotes, lists and YAML's special characters are read as in a file, all else as it
  /// stands.
  std::optional<Node> override_value(std::string_view text, const Position& at) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (!text.empty() && std::string_view("[]{}\"'&*!|>%@`").find(text.front()) != std::string_view::npos) {
      Faults inner;
      std::optional<Node> value = parse_document(text, at.source, inner);
      faults_.add_at(at, inner);
      if (inner.size() > 0) return std::nullopt;
      return value;
    }
    if (text.empty() || text == "null" || text == "~") return Node{Node::Kind::kNull, at};
    return Node{Node::Kind::kScalar, at, std::string(text)};
  }

  void check_conflicts() {
    for (const Conflict& conflict : conflicts(recipe_)) {
      const auto is_broken = [this](const std::string& key) { return broken_.contains(key); };
      if (std::any_of(conflict.keys.begin(), conflict.keys.end(), is_broken)) continue;
      faults_.add(blame(conflict.keys), conflict.text);
    }
  }

  /// Where to report a conflict: the key set last (command line, then file, then included file), else its
  /// section.
  [[nodiscard]] Position blame(const std::vector<std::string>& keys_involved) const {
    std::optional<Position> best;
    const auto beats = [this](const Position& a, const Position& b) {
      if (sources_.is_override(a) != sources_.is_override(b)) return sources_.is_override(a);
      return sources_.is_override(a) ? a.source > b.source : a.source < b.source;
    };
    for (const std::string& key : keys_involved) {
      const auto given = given_.find(key);
      if (given != given_.end() && (!best || beats(given->second, *best))) best = given->second;
    }
    for (std::string section = parent_of(keys_involved.front()); !best && !section.empty();
         section = parent_of(section)) {
      const auto found = section_positions_.find(section);
      if (found != section_positions_.end()) best = found->second;
    }
    return best.value_or(Position{});
  }

  const ReadFile& read_include_;
  Sources sources_;
  Faults faults_;
  std::vector<std::filesystem::path> chain_;  ///< the file and what it includes
  std::vector<Node> layers_;                  ///< the file's tree, then its base's ...
  Recipe recipe_;
  std::map<std::string, Position> given_;              ///< keys set, and where
  std::map<std::string, Position> section_positions_;  ///< sections seen, and where
  std::set<std::string> broken_;                       ///< keys whose value was refused
};

}  // namespace

LoadedRecipe parse_recipe_text(const std::string& name, std::string_view text,
                               const std::vector<std::string>& overrides, const ReadFile& read_include) {
  Parser parser(read_include);
  parser.read_file(name, text);
  parser.apply_files();
  for (const std::string& argument : overrides) parser.apply_override(argument);
  return parser.finish();
}

}  // namespace echelon::recipe
