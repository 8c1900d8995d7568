#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/options/choice.h"
#include "base/options/patterns.h"
#include "base/options/range.h"
#include "recipe/recipe.h"

namespace echelon::recipe {

/// A field whose type is an enum class with words (base/options/choice.h), with its type erased.
struct ChoiceField {
  std::uint8_t* value;
  std::span<const std::string_view> words;  ///< by value
  [[nodiscard]] std::string_view word() const { return words[*value]; }
};

/// Pointer to the field of a key; the alternative held is the key's type.
using Slot =
    std::variant<bool*, std::int64_t*, double*, std::array<double, 2>*, std::string*, ChoiceField,
                 SwitchOrCount*, std::vector<std::string>*, std::vector<double>*, std::vector<SchedulePhase>*,
                 PatternMap<bool>*, PatternMap<double>*, PatternMap<FloatType>*, PatternMap<std::string>*>;

template <class Field>
[[nodiscard]] Slot slot_of(Field& field) {
  if constexpr (HasWords<Field>) {
    // HasWords implies a one-byte enum; access through unsigned char is exempt from the aliasing rule.
    return ChoiceField{reinterpret_cast<std::uint8_t*>(&field), kWords<Field>};
  } else {
    return &field;
  }
}

/// Returns whether the field maps name patterns to values.
[[nodiscard]] constexpr bool is_map(const Slot& slot) {
  return std::holds_alternative<PatternMap<bool>*>(slot) ||
         std::holds_alternative<PatternMap<double>*>(slot) ||
         std::holds_alternative<PatternMap<FloatType>*>(slot) ||
         std::holds_alternative<PatternMap<std::string>*>(slot);
}

/// Upper limit of every number of steps.
inline constexpr std::int64_t kMaxSteps = 1'000'000'000'000;

/// The allowed words; in a map they hold for each of its values. For a bool: the allowed ones of true and
/// false.
struct Choices {
  struct Choice {
    std::string value;
    std::string meaning;
  };
  std::vector<Choice> values;
  std::vector<std::string> planned;  ///< known values that this version does not implement
};

/// The syntax of a free text.
enum class Text {
  kName,     ///< letters, digits, '.', '_', '-'
  kPath,     ///< of a file or folder
  kPattern,  ///< each entry of a list: a pattern of base/options/patterns.h, no duplicates
  kTime,     ///< "2026-03-01T11:30:00Z"; empty: none
  kPhase,    ///< each entry of a list: a kind of schedule and its steps, "linear_warmup 100"
};

/// The values that a key allows. A range applies to each element of a list, each value of a map, and the
/// count of a SwitchOrCount.
using Rule = std::variant<std::monostate, IntegerRange, NumberRange, Choices, Text>;

/// One key of a recipe. Loading, writing, the reference and the JSON Schema all work from the table of keys
/// alone.
struct Key {
  std::string path;             ///< "optim.lr", the same as the field's path in Recipe
  Slot (*slot)(Recipe&);        ///< returns the field in the given recipe
  Rule rule;                    ///< its allowed values
  std::string unit;             ///< "seconds", "tokens" ..., or empty
  std::string meaning;          ///< one line for the reference
  Text names = Text::kPattern;  ///< of a map: the syntax of its names
};

/// A section or subsection with its description.
struct Section {
  std::string path;  ///< "shard", "shard.wrap"
  std::string meaning;
};

/// Every key, in the order in which to_yaml() writes them. Built on first use, thread-safe.
[[nodiscard]] const std::vector<Key>& keys();

/// Every section and subsection, in the same order.
[[nodiscard]] const std::vector<Section>& sections();

/// Null if there is no such key.
[[nodiscard]] const Key* find_key(std::string_view path);
[[nodiscard]] bool is_section(std::string_view path);

/// Names of the keys and subsections directly in `section`: {"strategy", "wrap", ...} for "shard". For "":
/// the sections.
[[nodiscard]] std::vector<std::string> names_under(std::string_view section);

/// "optim.lr" -> "optim" and "lr"; "model" -> "" and "model".
[[nodiscard]] std::string parent_of(std::string_view path);
[[nodiscard]] std::string leaf_of(std::string_view path);

/// The key or section that `path`, which does not exist, most likely means; "" if none is similar.
[[nodiscard]] std::string meant_by(std::string_view path);

/// The hint for an unknown `path`: "did you mean optim.lr?", or the list of existing names.
[[nodiscard]] std::string suggestion_for(std::string_view path);

}  // namespace echelon::recipe
