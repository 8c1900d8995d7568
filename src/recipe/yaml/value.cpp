#include "recipe/yaml/value.h"

#include <algorithm>
#include <map>

#include "base/number.h"
#include "base/str.h"
#include "recipe/yaml/scalar.h"
#include "recipe/yaml/writer.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxEntries = 1000;

/// Reads one scalar into the field. Returns its problem, worded to follow the text, or "".
class ScalarReader {
 public:
  ScalarReader(const Key& key, const Node& node) : key_(key), node_(node) {}

  std::string operator()(std::int64_t* field) const { return read<IntegerRange>(field, read_integer); }
  std::string operator()(double* field) const { return read<NumberRange>(field, read_number); }
  std::string operator()(SwitchOrCount* field) const {
    bool on = false;
    const std::string problem = (*this)(&on);
    if (problem.empty()) *field = {on, 0};
    if (problem.empty() || node_.quoted || problem.starts_with("must be written")) return problem;
    std::int64_t ignored = 0;
    if (!read_integer(node_.text, ignored).empty()) return "is neither true nor false nor an integer";
    SwitchOrCount value;
    const std::string why = (*this)(&value.count);
    if (why.empty()) *field = value;
    return why;
  }
  std::string operator()(bool* field) const {
    if (node_.quoted) return quoted();
    bool value = false;
    if (std::string problem = read_bool(node_.text, value); !problem.empty()) return problem;
    if (const auto* choices = std::get_if<Choices>(&key_.rule)) {
      if (std::string problem = choice_problem(key_.path, *choices, node_.text); !problem.empty())
        return problem;
    }
    *field = value;
    return "";
  }
  std::string operator()(std::string* field) const {
    std::string problem;
    // Model.preset: a word that is not an enum value.
    if (const auto* choices = std::get_if<Choices>(&key_.rule)) {
      problem = choice_problem(key_.path, *choices, node_.text);
    } else if (const auto* kind = std::get_if<Text>(&key_.rule)) {
      problem = text_problem(*kind, node_.text);
    }
    if (problem.empty()) *field = node_.text;
    return problem;
  }
  std::string operator()(ChoiceField field) const {
    std::string problem = choice_problem(key_.path, std::get<Choices>(key_.rule), node_.text);
    if (!problem.empty()) return problem;
    const auto word = std::ranges::find(field.words, node_.text);
    *field.value = static_cast<std::uint8_t>(word - field.words.begin());
    return "";
  }
  std::string operator()(std::array<double, 2>*) const { return "is one value, not a list"; }
  template <class Element>
  std::string operator()(std::vector<Element>*) const {
    return "is one value, not a list";
  }
  template <class Value>
  std::string operator()(PatternMap<Value>*) const {
    return "is one value, not a map of patterns";
  }

 private:
  template <class Range, class Number, class Read>
  std::string read(Number* field, const Read& read_text) const {
    if (node_.quoted) return quoted();
    Number value = 0;
    if (std::string problem = read_text(node_.text, value); !problem.empty()) return problem;
    const auto* range = std::get_if<Range>(&key_.rule);
    if (range != nullptr && !range->holds(value)) return "is out of range";
    *field = value;
    return "";
  }
  static std::string quoted() { return "is in quotes, which makes it text; remove the quotes"; }
  const Key& key_;
  const Node& node_;
};

/// Reads a list of numbers. Returns its problem or "".
std::string read_numbers(const Key& key, const Node& list, std::vector<double>& values) {
  for (const Node& item : list.items) {
    const std::size_t number = values.size() + 1;
    if (item.kind != Node::Kind::kScalar) return str("value ", number, " is not a number");
    double value = 0;
    const std::string problem = ScalarReader(key, item)(&value);
    if (!problem.empty()) return str("value ", number, ", ", shown(item.text), ", ", problem);
    values.push_back(value);
  }
  return "";
}

bool is_broken(const Node& list) {
  return std::ranges::any_of(list.items, [](const Node& item) { return item.kind == Node::Kind::kBroken; });
}

std::string assign_pair(const Key& key, const Node& list, std::array<double, 2>& field) {
  if (list.items.size() != 2) return str("a list of ", list.items.size());
  std::vector<double> values;
  std::string problem = read_numbers(key, list, values);
  if (problem.empty()) std::copy_n(values.begin(), 2, field.begin());
  return problem;
}

std::string assign_numbers(const Key& key, const Node& list, std::vector<double>& field) {
  if (list.items.size() > kMaxEntries)
    return str(list.items.size(), " entries; at most ", kMaxEntries, " are accepted");
  std::vector<double> values;
  std::string problem = read_numbers(key, list, values);
  if (problem.empty()) field = std::move(values);
  return problem;
}

/// Reads the entries of a list or map; reports each fault at its entry.
class Entries {
 public:
  Entries(const Key& key, const Position& at, Faults& faults) : key_(key), at_(at), faults_(faults) {}

  bool read(const Node& list, std::vector<std::string>& field) {
    if (too_many(list.items.size())) return false;
    std::vector<std::string> entries;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const Node& item = list.items[i];
      // For an entry without value the parser gives the position of the next token, so another one is used.
      const Position& item_at = item.kind == Node::Kind::kNull ? at_ : item.at;
      if (!is_text(item, item_at, str("entry ", i + 1))) continue;
      check_text(std::get<Text>(key_.rule), item);
      entries.push_back(item.text);
    }
    if (good_) field = std::move(entries);
    return good_;
  }

  bool read(const Node& list, std::vector<SchedulePhase>& field) {
    std::vector<std::string> texts;
    (void)read(list, texts);
    std::vector<SchedulePhase> phases(list.items.size());
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const Node& item = list.items[i];
      if (item.kind != Node::Kind::kScalar || !read_phase(item.text, phases[i]).empty()) continue;
      if (phases[i].steps == 0 && i + 1 < phases.size())
        report(item.at,
               str(shown(item.text),
                   " has no number of steps, which only the last phase may omit; expected, for example, '",
                   item.text, " 100'"));
    }
    if (good_) field = std::move(phases);
    return good_;
  }

  bool read_map(const Node& map, const Slot& slot) {
    if (auto* const* switches = std::get_if<PatternMap<bool>*>(&slot)) return read(map, **switches);
    if (auto* const* numbers = std::get_if<PatternMap<double>*>(&slot)) return read(map, **numbers);
    if (auto* const* texts = std::get_if<PatternMap<std::string>*>(&slot)) return read(map, **texts);
    return read(map, *std::get<PatternMap<FloatType>*>(slot));
  }

 private:
  template <class Value>
  bool read(const Node& map, PatternMap<Value>& field) {
    if (too_many(map.items.size() / 2)) return false;
    PatternMap<Value> entries;
    for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
      const Node& pattern = map.items[i];
      const Node& value = map.items[i + 1];
      if (is_text(pattern, pattern.at,
                  key_.names == Text::kPath   ? "a file"
                  : key_.names == Text::kName ? "a name"
                                              : "a pattern"))
        check_text(key_.names, pattern);
      const Position& value_at = value.kind == Node::Kind::kNull ? pattern.at : value.at;
      if (is_text(value, value_at, str("the value of ", shown(pattern.text))))
        entries.emplace_back(pattern.text, read_value<Value>(pattern, value));
    }
    if (good_) field = std::move(entries);
    return good_;
  }

  void report(const Position& at, const std::string& problem) {
    good_ = false;
    faults_.add(at, str(key_.path, ": ", problem));
  }

  bool too_many(std::size_t entries) {
    if (entries > kMaxEntries) report(at_, str(entries, " entries; at most ", kMaxEntries, " are accepted"));
    return entries > kMaxEntries;
  }

  bool is_text(const Node& node, const Position& at, const std::string& what) {
    if (node.kind == Node::Kind::kScalar) return true;
    good_ = false;
    if (node.kind == Node::Kind::kBroken) return false;  // reported already
    const char* is = node.kind == Node::Kind::kNull ? " is missing" : " is a list or map";
    report(at, str(what, is, "; expected ", expected(key_)));
    return false;
  }

  void check_text(Text kind, const Node& node) {
    const std::string problem = text_problem(kind, node.text);
    if (!problem.empty()) report(node.at, str(shown(node.text), " ", problem, "; expected ", expected(key_)));
    const auto [first, is_new] = seen_.emplace(node.text, node.at);
    if (is_new || kind == Text::kPhase) return;
    report(node.at,
           str(shown(node.text), " given twice; first on line ", first->second.line, "; remove one"));
  }

  template <class Value>
  Value read_value(const Node& pattern, const Node& value) {
    Value read{};
    const std::string problem = std::visit(ScalarReader(key_, value), slot_of(read));
    if (!problem.empty()) {
      report(value.at,
             str(shown(pattern.text), ": ", shown(value.text), " ", problem, "; expected ", expected(key_)));
    }
    return read;
  }

  const Key& key_;
  const Position& at_;
  Faults& faults_;
  std::map<std::string, Position> seen_;
  bool good_ = true;
};

std::string words(const Choices& choices) {
  return str(choices.values.size() > 1 ? "one of: " : "", join(words_of(choices), ", "));
}

std::string words(Text kind) {
  switch (kind) {
    case Text::kName: return "a name of letters, digits, '.', '_' and '-'";
    case Text::kPath: return "a path";
    case Text::kPattern: return "a list of patterns, such as [\"model.layers.*\", lm_head]";
    case Text::kTime: return "a time in UTC, such as 2026-03-01T11:30:00Z";
    case Text::kPhase: return "a list of phases, such as [linear_warmup 100, constant 500, cosine]";
  }
  return "";
}

}  // namespace

bool assign(const Key& key, const Node& value, const Position& at, Recipe& recipe, Faults& faults) {
  const Slot slot = key.slot(recipe);
  std::string problem;
  if (value.kind == Node::Kind::kBroken) {
    return false;
  } else if (value.kind == Node::Kind::kNull) {
    faults.add(at, str(key.path, ": no value given; expected ", expected(key),
                       "; remove the key for its default, ", written(key, Recipe())));
    return false;
  } else if (value.kind == Node::Kind::kScalar) {
    problem = std::visit(ScalarReader(key, value), slot);
    if (!problem.empty()) problem = str(shown(value.text), " ", problem);
  } else if (is_map(slot)) {
    if (value.kind == Node::Kind::kMap) return Entries(key, at, faults).read_map(value, slot);
    problem = "a list where a map of patterns belongs";
  } else if (value.kind == Node::Kind::kMap) {
    problem = "a section where a value belongs";
  } else if (auto* const* list = std::get_if<std::vector<std::string>*>(&slot)) {
    return Entries(key, at, faults).read(value, **list);
  } else if (auto* const* phases = std::get_if<std::vector<SchedulePhase>*>(&slot)) {
    return Entries(key, at, faults).read(value, **phases);
  } else if (is_broken(value)) {
    return false;  // reported already
  } else if (auto* const* numbers = std::get_if<std::vector<double>*>(&slot)) {
    problem = assign_numbers(key, value, **numbers);
  } else if (auto* const* pair = std::get_if<std::array<double, 2>*>(&slot)) {
    problem = assign_pair(key, value, **pair);
  } else {
    problem = "a list where one value belongs";
  }
  if (!problem.empty()) faults.add(at, str(key.path, ": ", problem, "; expected ", expected(key)));
  return problem.empty();
}

void copy_value(const Key& key, Recipe& from, Recipe& to) {
  std::visit(
      [&](auto target) {
        const auto source = std::get<decltype(target)>(key.slot(from));
        if constexpr (std::is_same_v<decltype(target), ChoiceField>)
          *target.value = *source.value;
        else
          *target = *source;
      },
      key.slot(to));
}

std::string expected(const Key& key) {
  Recipe recipe;
  const Slot slot = key.slot(recipe);
  const auto* choices = std::get_if<Choices>(&key.rule);
  const auto* numbers = std::get_if<NumberRange>(&key.rule);
  if (is_map(slot)) {
    const auto* text = std::get_if<Text>(&key.rule);
    if (key.names == Text::kName)
      return text != nullptr && *text == Text::kPath ? "a map of names to files, such as {NAME: FILE}"
                                                     : "a map of names to texts, such as {NAME: TEXT}";
    const std::string each = choices != nullptr ? words(*choices) : str("a number ", words(*numbers));
    const std::string example = choices != nullptr ? choices->values.front().value : "0.5";
    return str(key.names == Text::kPath ? "a map of files, such as {data/train.tok: "
                                        : "a map of patterns, such as {\"*norm*\": ",
               example, "}, each value ", each);
  }
  if (numbers != nullptr && std::holds_alternative<std::vector<double>*>(slot))
    return str("a list of numbers, each ", words(*numbers), ", such as [0.5, 0.5, 0.5]");
  if (numbers != nullptr) {
    return std::holds_alternative<std::array<double, 2>*>(slot)
               ? str("a list of two numbers, each ", words(*numbers), ", such as [0.9, 0.95]")
               : str("a number ", words(*numbers));
  }
  if (choices != nullptr) return words(*choices);
  if (const auto* range = std::get_if<IntegerRange>(&key.rule)) {
    const bool either = std::holds_alternative<SwitchOrCount*>(slot);
    return str(either ? "true, false or " : "", words(*range));
  }
  if (const auto* text = std::get_if<Text>(&key.rule)) return words(*text);
  return std::holds_alternative<std::string*>(slot) ? "a text" : "true or false";
}

}  // namespace echelon::recipe
