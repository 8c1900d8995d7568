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

/// A field that is an enum class with words (base/options/choice.h).
struct ChoiceField {
  std::uint8_t* value;
  std::span<const std::string_view> words;  ///< by value
  [[nodiscard]] std::string_view word() const { return words[*value]; }
};

/// The field behind a key; the alternative held is the key's type.
using Slot =
    std::variant<bool*, std::int64_t*, double*, std::array<double, 2>*, std::string*, ChoiceField,
                 SwitchOrCount*, std::vector<std::string>*, std::vector<double>*, std::vector<SchedulePhase>*,
                 PatternMap<bool>*, PatternMap<double>*, PatternMap<FloatType>*>;

template <class Field>
[[nodiscard]] Slot slot_of(Field& field) {
  if constexpr (HasWords<Field>) {
    // An unsigned char may be another name of any object's bytes.
    return ChoiceField{reinterpret_cast<std::uint8_t*>(&field), kWords<Field>};
  } else {
    return &field;
  }
}

/// Has the key a name pattern for each of its values?
[[nodiscard]] constexpr bool is_map(const Slot& slot) {
  return std::holds_alternative<PatternMap<bool>*>(slot) ||
         std::holds_alternative<PatternMap<double>*>(slot) ||
         std::holds_alternative<PatternMap<FloatType>*>(slot);
}

/// No number of steps is larger.
inline constexpr std::int64_t kMaxSteps = 1'000'000'000'000;

/// Allowed words (each value of a map), or true/false where not both are.
struct Choices {
  struct Choice {
    std::string value;
    std::string meaning;
  };
  std::vector<Choice> values;
  std::vector<std::string> planned;  ///< known values that this version does not have
};

/// Free text.
enum class Text {
  kName,     ///< letters, digits, '.', '_', '-'
  kPath,     ///< of a file or folder
  kPattern,  ///< each entry of a list: a pattern of base/options/patterns.h; none twice
  kTime,     ///< "2026-03-01T11:30:00Z"; empty: none
  kPhase,    ///< each entry of a list: "linear_warmup 100", a kind of schedule and its steps
};

/// Of a number: also of each element of a list, each value of a map; of a switch or count: of the count.
using Rule = std::variant<std::monostate, IntegerRange, NumberRange, Choices, Text>;

/// One key of a recipe. The table of them is all that loading, writing, the reference and the JSON Schema
/// know.
struct Key {
  std::string path;             ///< "optim.lr", the same words as the field's
  Slot (*slot)(Recipe&);        ///< the field in a given recipe
  Rule rule;                    ///< what it may be
  std::string unit;             ///< "seconds", "tokens" ..., or empty
  std::string meaning;          ///< one line for the reference
  Text names = Text::kPattern;  ///< of a map: what its names are
};

/// A section or subsection and what it is about.
struct Section {
  std::string path;  ///< "shard", "shard.wrap"
  std::string meaning;
};

/// Every key, in the order in which recipes are written.
[[nodiscard]] const std::vector<Key>& keys();

/// Every section and subsection, in the same order.
[[nodiscard]] const std::vector<Section>& sections();

/// Null when there is none.
[[nodiscard]] const Key* find_key(std::string_view path);
[[nodiscard]] bool is_section(std::string_view path);

/// Names directly under a section ("" for the top: the sections), e.g. {"strategy", "wrap", ...} for "shard".
[[nodiscard]] std::vector<std::string> names_under(std::string_view section);

/// "optim.lr" -> "optim" and "lr"; "model" -> "" and "model".
[[nodiscard]] std::string parent_of(std::string_view path);
[[nodiscard]] std::string leaf_of(std::string_view path);

/// The key or section that most likely was meant by `path`, which does not exist; or "".
[[nodiscard]] std::string meant_by(std::string_view path);

/// What to tell a user who wrote `path`: "did you mean optim.lr?", else the names that exist.
[[nodiscard]] std::string suggestion_for(std::string_view path);

}  // namespace echelon::recipe
