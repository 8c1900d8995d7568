#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::recipe {

/// The field behind a key; the alternative held is the key's type.
using Slot = std::variant<bool*, std::int64_t*, double*, std::array<double, 2>*, std::string*>;

/// Allowed integers, both ends included.
struct IntegerRange {
  std::int64_t low;
  std::int64_t high;
};

/// Allowed numbers (each element of a list).
struct NumberRange {
  double low;
  double high;
  bool low_excluded = false;
  bool high_excluded = false;
};

/// Allowed words, or true/false where not both are.
struct Choices {
  struct Choice {
    std::string value;
    std::string meaning;
  };
  std::vector<Choice> values;
  std::vector<std::string> planned;  ///< known values that this version does not have
};

/// Free text that must be a name (letters, digits, '.', '_', '-') or a path.
enum class Text { kName, kPath };

using Rule = std::variant<std::monostate, IntegerRange, NumberRange, Choices, Text>;

/// One key of a recipe. The table of them is all that loading, writing, the reference and the JSON Schema
/// know.
struct Key {
  std::string path;       ///< "optim.lr", the same words as the field's
  Slot (*slot)(Recipe&);  ///< the field in a given recipe
  Rule rule;              ///< what it may be
  std::string unit;       ///< "seconds", "tokens" ..., or empty
  std::string meaning;    ///< one line for the reference
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
