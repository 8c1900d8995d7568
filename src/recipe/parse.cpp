#include "recipe/parse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/str.h"
#include "recipe/check/check.h"
#include "recipe/check/contradictions.h"
#include "recipe/check/faults.h"
#include "recipe/check/foreign_file.h"
#include "recipe/keys/keys.h"
#include "recipe/model_source.h"
#include "recipe/recipe_in.h"
#include "recipe/yaml/characters.h"
#include "recipe/yaml/document.h"
#include "recipe/yaml/value.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxIncludes = 8;

/// Turns the texts of one recipe into a Recipe. Each layer overrides the previous one: included file, file,
/// command line. Faults are collected, so one run reports all of them.
class Parser {
 public:
  explicit Parser(const ReadFile& read_include) : read_include_(read_include) {}

  /// `of_run`: what names the run is left out. With it, the new run would go on in the folder of the old one.
  void read_file(const std::string& name, std::string_view text, bool of_run = false) {
    const std::filesystem::path path = std::filesystem::path(name).lexically_normal();
    chain_.push_back(path);
    const std::size_t source = sources_.add_file(name);
    if (of_run) of_runs_.insert(source);
    // First, so that the YAML parser sees harmless text and positions count characters.
    Faults found;
    const std::string clean = check_characters(text, source, found);
    if (source == 0 && clean.starts_with(kKeepsOrigins)) named_ = named_origins(clean);
    Document document = parse_document(clean, source, found);
    if (!has_own_section(document.root)) {
      complete_ = false;  // whatever seems to be missing is not the fault
      if (const std::string what = foreign_file(text); !what.empty())
        return faults_.add({source, 1, 1}, str("this is no recipe, but looks like ", what));
    }
    faults_.add(found);
    complete_ = complete_ && document.complete;
    if (!document.syntax_error.empty()) {
      faults_.add(document.syntax_error_at, document.syntax_error + "; what follows was not checked");
    }
    Node& root = document.root;
    if (root.kind == Node::Kind::kMap) {
      layers_.push_back(std::move(root));
      follow_include(layers_.back(), path);
      return;
    }
    complete_ = false;
    if (root.kind == Node::Kind::kNull && faults_.size() == 0) {
      faults_.add({source, 1, 1}, "the recipe is empty; expected sections such as model: and train:");
    } else if (root.kind == Node::Kind::kList || root.kind == Node::Kind::kScalar) {
      faults_.add(
          root.at,
          str(root.kind == Node::Kind::kList ? "a list" : shown(root.text),
              " where the recipe's sections belong; expected 'section:' lines such as model: and train:"));
    }
  }

  /// Stores the values of all files, innermost base first, so that an including file overrides its base.
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
    if (key == nullptr) {
      broken_.insert(meant_by(path));
      return faults_.add(at, str(path, ": no such key; ", suggestion_for(path)));
    }
    if (const std::optional<Node> value = override_value(std::string_view(argument).substr(equals + 1), at)) {
      store(*key, *value, at);
    }
  }

  LoadedRecipe finish(bool check) {
    apply_model_source(check);
    apply_optimizer_defaults();
    if (check) check_conflicts();
    faults_.raise_if_any(sources_);
    // Derived from run.name, so only after all layers are applied.
    if (recipe_.run.dir.empty()) recipe_.run.dir = "runs/" + recipe_.run.name;
    LoadedRecipe loaded{recipe_, {}};
    for (const Key& key : keys()) {
      const auto given = given_.find(key.path);
      const bool from_source = sets(source_, key.path) && is_used(key.path, recipe_);
      loaded.origins[key.path] = given != given_.end() ? origin(key.path, given->second)
                                 : from_source         ? source_.origin
                                                       : "default";
    }
    return loaded;
  }

 private:
  /// Returns whether a file is meant as a recipe: it has a section of one. AutoModel's files have some too.
  [[nodiscard]] static bool has_own_section(const Node& root) {
    bool own = false;
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2) {
      const std::string& name = root.items[i].text;
      if (name == "step_scheduler") return false;
      own = own || is_section(name) || name == "include";
    }
    return own;
  }

  /// In the words of a resolved recipe that keeps them, else where it stands.
  [[nodiscard]] std::string origin(const std::string& path, const Position& at) const {
    const auto named = origins_.find(path);
    return named != origins_.end() && !sources_.is_override(at) ? named->second : sources_.origin(at);
  }

  /// Copies the values of a preset or folder to the `model` keys that no text sets. Runs after all layers
  /// are applied, because an override may change which one.
  void apply_model_source(bool reads_folder) {
    if (is_broken("model.from")) return;
    const auto is_given = [this](const std::string& key) { return given_.contains(key); };
    source_ = model_source(recipe_, is_given, reads_folder);
    for (const Conflict& problem : source_.problems) {
      faults_.add(blame(problem.keys), problem.text);
      broken_.insert("model");
    }
    if (!source_.problems.empty()) return;
    Recipe published;
    published.model = source_.model;
    for (const Key& key : keys()) {
      if (sets(source_, key.path) && !is_given(key.path)) copy_value(key, published, recipe_);
    }
  }

  /// SGD and Adadelta have the defaults of torch.optim: decay as strong as AdamW's is not decoupled there.
  void apply_optimizer_defaults() {
    OptimOptions& optim = recipe_.optim;
    const bool adadelta = optim.kind == OptimKind::kAdadelta;
    if (adadelta && !given_.contains("optim.eps")) optim.eps = 1e-6;
    if ((adadelta || optim.kind == OptimKind::kSgd) && !given_.contains("optim.weight_decay"))
      optim.weight_decay = 0;
  }

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
      return;  // apply_section() reports a second one as a duplicate key
    }
  }

  void include(const Node& value, const std::filesystem::path& target) {
    std::filesystem::path path = target.lexically_normal();
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(path, ignored);
    if (folder) path = recipe_in(path);
    if (std::ranges::find(chain_, path) != chain_.end()) {
      return faults_.add(
          value.at,
          str("include: ", shown(value.text),
              " is already part of this recipe; a file cannot include itself, directly or through others"));
    }
    if (chain_.size() > kMaxIncludes) {
      return faults_.add(value.at, str("include: more than ", kMaxIncludes,
                                       " files deep; put the keys together in fewer files"));
    }
    try {
      const std::string text = read_include_(path);
      read_file(path.string(), text, folder);
    } catch (const Error& error) {
      complete_ = false;
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
      // The duplicate's value is checked too, so that its faults are also reported.
      if (section.empty() && key.text == "include") continue;
      apply_entry(path, key, map.items[i + 1]);
    }
  }

  void apply_entry(const std::string& path, const Node& key, const Node& value) {
    const bool dotted = key.text.find('.') != std::string::npos;
    if (of_runs_.contains(key.at.source) && (path == "run.name" || path == "run.dir")) return;
    if (const Key* known = dotted ? nullptr : find_key(path)) {
      const auto named = key.at.source == 0 ? named_.find(key.at.line) : named_.end();
      if (named != named_.end()) origins_[path] = named->second;
      store(*known, value, value.kind == Node::Kind::kNull ? key.at : value.at);
    } else if (!dotted && is_section(path)) {
      section_positions_.try_emplace(path, key.at);
      if (value.kind == Node::Kind::kMap) return apply_section(path, value);
      broken_.insert(path);
      if (value.kind == Node::Kind::kBroken) return;
      faults_.add(value.kind == Node::Kind::kNull ? key.at : value.at,
                  str(path, ": ", not_a_section(path, value)));
    } else if (key.text == "<<") {
      faults_.add(
          key.at,
          "merge keys (<<) are not allowed; write the keys out, or use include: for a whole base recipe");
    } else if (faults_.full()) {
      faults_.add(key.at, "");  // only counted: searching for a similar key is slow
    } else {
      faults_.add(key.at, str(safe(path), ": ", unknown_key(path, key.text)));
      broken_.insert(meant_by(path));
    }
  }

  [[nodiscard]] static std::string not_a_section(const std::string& path, const Node& value) {
    const std::string example = str("; expected keys such as ", path, '.', names_under(path).front());
    if (value.kind == Node::Kind::kNull)
      return "no keys given" + example + "; remove the line for all defaults";
    if (value.kind == Node::Kind::kScalar && !value.quoted && value.text.find(':') != std::string::npos) {
      return shown(value.text) + " is not a key and value; is a space missing after the ':'?";
    }
    return "a value where a section belongs" + example;
  }

  [[nodiscard]] static std::string unknown_key(const std::string& path, const std::string& name) {
    if (const std::size_t colon = name.find(':'); colon != std::string::npos && colon > 0) {
      return "no such key; a space is missing after the ':'";
    }
    if (name == "include") return "include belongs at the top of a file, not in a section";
    if (name.find('.') != std::string::npos && find_key(path) != nullptr) {
      return str("dotted names are for the command line; in a file write ", leaf_of(path), ": below ",
                 parent_of(path), ':');
    }
    return str(parent_of(path).empty() ? "no such section; " : "no such key; ", suggestion_for(path));
  }

  /// A key path for a message: unchanged if it needs no escapes, else quoted.
  [[nodiscard]] static std::string safe(const std::string& path) {
    const std::string quoted = shown(path);
    return quoted == "'" + path + "'" ? path : quoted;
  }

  void store(const Key& key, const Node& value, const Position& at) {
    if (value.kind == Node::Kind::kBroken) {
      broken_.insert(key.path);
      return;
    }
    if (!assign(key, value, at, recipe_, faults_)) {
      broken_.insert(key.path);
      return;
    }
    // A later layer's valid value replaces a refused one, so conflicts can be checked; the fault remains.
    broken_.erase(key.path);
    given_[key.path] = at;
  }

  /// The part after '='. Text that starts with a character special to YAML (quote, bracket, ...) is parsed as
  /// in a file. Other text is taken literally, so that overrides need no second level of quotes.
  std::optional<Node> override_value(std::string_view text, const Position& at) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (!text.empty() && std::string_view("[]{}\"'&*!|>%@`").find(text.front()) != std::string_view::npos) {
      Faults inner;
      Document document = parse_document(text, at.source, inner);
      if (!document.syntax_error.empty()) inner.add(document.syntax_error_at, document.syntax_error);
      faults_.add(inner);
      if (inner.size() > 0) return std::nullopt;
      return std::move(document.root);
    }
    if (text.empty() || text == "null" || text == "~") return Node{Node::Kind::kNull, at};
    return Node{Node::Kind::kScalar, at, std::string(text)};
  }

  /// Returns whether the value of `path` is unreliable: the key or a section around it was refused or
  /// misspelled.
  [[nodiscard]] bool is_broken(const std::string& path) const {
    return !path.empty() && (broken_.contains(path) || is_broken(parent_of(path)));
  }

  void check_conflicts() {
    if (!complete_) return;  // the unread part may hold values that seem to be missing
    for (const Conflict& conflict : conflicts(recipe_)) {
      if (std::ranges::any_of(conflict.keys,  // A fault of the key itself was reported already; a conflict
                                              // with its default would mislead.
                              [this](const std::string& key) { return is_broken(key); }))
        continue;
      const Position here = blame(conflict.keys);
      faults_.add(here, conflict.text + how_to_unset(conflict, given_, here, sources_));
    }
  }

  /// Where to report a conflict: at the involved key that was set last (command line, else file, else
  /// included file), or at its section if no involved key is set.
  [[nodiscard]] Position blame(const std::vector<std::string>& keys_involved) const {
    std::optional<Position> best;
    const auto beats = [this](const Position& a, const Position& b) {
      if (sources_.is_override(a) != sources_.is_override(b)) return sources_.is_override(a);
      // Sources are numbered file, base, base's base ..., then overrides: among files the lower number wins,
      // among overrides the higher.
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
    return best.value_or(kNowhere);
  }

  const ReadFile& read_include_;
  Sources sources_;
  Faults faults_;
  /// The file and the files it includes, outermost first; to detect cycles.
  std::vector<std::filesystem::path> chain_;
  std::vector<Node> layers_;  ///< tree of the file, of its base, of the base's base ...
  Recipe recipe_;
  ModelSource source_;
  std::map<std::string, Position> given_;              ///< keys set, with their positions
  std::map<std::string, Position> section_positions_;  ///< sections seen, with their positions
  std::set<std::string> broken_;                       ///< keys and sections refused or misspelt
  std::map<int, std::string> named_;                   ///< by line, of a recipe that keeps its origins
  std::map<std::string, std::string> origins_;         ///< the same by key
  std::set<std::size_t> of_runs_;                      ///< sources that are recipes of other runs
  bool complete_ = true;                               ///< every file was parsed to its end
};

}  // namespace

LoadedRecipe parse_recipe_text(const std::string& name, std::string_view text,
                               const std::vector<std::string>& overrides, const ReadFile& read_include) {
  Parser parser(read_include);
  parser.read_file(name, text);
  parser.apply_files();
  for (const std::string& argument : overrides) parser.apply_override(argument);
  return parser.finish(true);
}

Recipe parse_stored_recipe(const std::string& name, std::string_view text) {
  const ReadFile no_file = [](const std::filesystem::path& path) -> std::string {
    throw Error(Code::kUsage, "a stored recipe cannot include files, but this one includes '", path.string(),
                "'");
  };
  Parser parser(no_file);
  parser.read_file(name, text);
  parser.apply_files();
  return parser.finish(false).recipe;
}

}  // namespace echelon::recipe
