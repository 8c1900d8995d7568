#include "recipe/value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/str.h"
#include "recipe/characters.h"
#include "recipe/writer.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxNameBytes = 100;
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::string_view kDigits = "0123456789";

bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

std::string_view without_sign(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text;
}

/// Why a text that looks like a number is none, for the notations that YAML readers disagree on; or "".
std::string notation_problem(std::string_view text) {
  const std::string_view digits = without_sign(text);
  std::string lower(digits);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  if (lower == ".nan" || lower == "nan" || lower == ".inf" || lower == "inf" || lower == "infinity") {
    return "is not a finite number";
  }
  if (lower.size() > 2 && lower[0] == '0' &&
      std::string_view("xob").find(lower[1]) != std::string_view::npos) {
    return "is not decimal; write it in decimal digits";
  }
  const std::size_t separator = digits.find_first_of("_,");
  if (separator != std::string_view::npos && separator > 0 &&
      kDigits.find(digits[0]) != std::string_view::npos) {
    return str("has a '", digits[separator], "' in it; write the digits without separators");
  }
  const std::string_view whole = digits.substr(0, digits.find_first_not_of(kDigits));
  if (whole.size() > 1 && whole[0] == '0')
    return "starts with 0, which some YAML readers take for octal; write it without leading zeros";
  return "";
}

/// Decimal integer or decimal fraction with exponent: [+-] digits [. digits] [e [+-] digits], one digit at
/// least.
bool is_decimal(std::string_view text) {
  std::string_view rest = without_sign(text);
  const auto skip_digits = [&rest] {
    const std::size_t n = std::min(rest.find_first_not_of(kDigits), rest.size());
    rest.remove_prefix(n);
    return n;
  };
  std::size_t digits = skip_digits();
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    digits += skip_digits();
  }
  if (digits == 0) return false;
  if (rest.starts_with('e') || rest.starts_with('E')) {
    rest.remove_prefix(1);
    rest = without_sign(rest);
    if (skip_digits() == 0) return false;
  }
  return rest.empty();
}

std::string read_integer(const std::string& text, std::int64_t& value) {
  if (const std::string problem = notation_problem(text); !problem.empty()) return problem;
  const std::string_view plain =
      text.starts_with('+') ? std::string_view(text).substr(1) : std::string_view(text);
  if (all_digits(without_sign(text))) {
    const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
    return error == std::errc() ? "" : "does not fit in 64 bits";
  }
  if (!is_decimal(text)) return "is not an integer";
  double number = 0;
  std::from_chars(plain.data(), plain.data() + plain.size(), number);
  const bool whole = std::abs(number) < 1e15 && number == std::floor(number);
  return whole ? str("is not written as an integer; write ", static_cast<std::int64_t>(number))
               : "is not an integer";
}

std::string read_number(const std::string& text, double& value) {
  if (const std::string problem = notation_problem(text); !problem.empty()) return problem;
  if (!is_decimal(text)) return "is not a number";
  const std::string_view plain =
      text.starts_with('+') ? std::string_view(text).substr(1) : std::string_view(text);
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  return error == std::errc() ? "" : "cannot be held in double precision";
}

std::string read_bool(const std::string& text, bool& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return "";
  }
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  for (const std::string_view yes : {"true", "yes", "on", "y", "1"}) {
    if (lower == yes) return "must be written true";
  }
  for (const std::string_view no : {"false", "no", "off", "n", "0"}) {
    if (lower == no) return "must be written false";
  }
  return "is not true or false";
}

std::string range_problem(const Rule& rule, double value) {
  const auto* range = std::get_if<NumberRange>(&rule);
  if (range == nullptr) return "";
  const bool low = range->low_excluded ? value > range->low : value >= range->low;
  const bool high = range->high_excluded ? value < range->high : value <= range->high;
  return low && high ? "" : "is out of range";
}

std::string choice_problem(const Choices& choices, const std::string& text) {
  std::vector<std::string> values;
  for (const auto& choice : choices.values) values.push_back(choice.value);
  if (std::find(values.begin(), values.end(), text) != values.end()) return "";
  const auto& planned = choices.planned;
  if (std::find(planned.begin(), planned.end(), text) != planned.end())
    return "is not available in this version";
  return "is not one of its values";
}

std::string name_problem(const std::string& text) {
  static constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (text.empty()) return "is empty";
  if (text.size() > kMaxNameBytes) return str("is longer than ", kMaxNameBytes, " characters");
  if (text.find_first_not_of(kAllowed) != std::string::npos)
    return "has a character that is not allowed in a name";
  if (text[0] == '.' || text[0] == '-') return "starts with '.' or '-'";
  return "";
}

std::string path_problem(const std::string& text) {
  if (text.size() > kMaxPathBytes) return str("is longer than ", kMaxPathBytes, " bytes");
  if (const std::string problem = first_character_problem(text); !problem.empty())
    return "has a character that " + problem;
  if (text.starts_with('-')) return "starts with '-', which commands take for an option; write ./ before it";
  if (text.starts_with('~') || text.find('$') != std::string::npos) {
    return "has a '~' or '$' that is not expanded here; write the path out, or pass it as an override and "
           "let the shell "
           "expand it";
  }
  return "";
}

std::string read_text(const Key& key, const std::string& text, std::string& value) {
  std::string problem;
  if (const auto* choices = std::get_if<Choices>(&key.rule)) problem = choice_problem(*choices, text);
  if (const auto* rule = std::get_if<Text>(&key.rule)) {
    problem = *rule == Text::kName ? name_problem(text) : path_problem(text);
  }
  if (problem.empty()) value = text;
  return problem;
}

/// Reads one scalar into the field; returns what is wrong with it, to be put after the text itself.
class ScalarReader {
 public:
  ScalarReader(const Key& key, const Node& node) : key_(key), node_(node) {}

  std::string operator()(std::int64_t* field) const {
    if (node_.quoted) return quoted();
    std::int64_t value = 0;
    if (std::string problem = read_integer(node_.text, value); !problem.empty()) return problem;
    const auto* range = std::get_if<IntegerRange>(&key_.rule);
    if (range != nullptr && (value < range->low || value > range->high)) return "is out of range";
    *field = value;
    return "";
  }
  std::string operator()(double* field) const {
    if (node_.quoted) return quoted();
    double value = 0;
    if (std::string problem = read_number(node_.text, value); !problem.empty()) return problem;
    if (std::string problem = range_problem(key_.rule, value); !problem.empty()) return problem;
    *field = value;
    return "";
  }
  std::string operator()(bool* field) const {
    if (node_.quoted) return quoted();
    bool value = false;
    if (std::string problem = read_bool(node_.text, value); !problem.empty()) return problem;
    if (const auto* choices = std::get_if<Choices>(&key_.rule)) {
      if (std::string problem = choice_problem(*choices, node_.text); !problem.empty()) return problem;
    }
    *field = value;
    return "";
  }
  std::string operator()(std::string* field) const { return read_text(key_, node_.text, *field); }
  std::string operator()(std::array<double, 2>*) const { return "is one value, not a list"; }

 private:
  static std::string quoted() { return "is in quotes, which makes it text; remove the quotes"; }
  const Key& key_;
  const Node& node_;
};

std::string assign_pair(const Key& key, const Node& list, std::array<double, 2>& field) {
  if (list.items.size() != 2) return str("a list of ", list.items.size());
  std::array<double, 2> values{};
  for (std::size_t i = 0; i < 2; ++i) {
    const Node& item = list.items[i];
    if (item.kind == Node::Kind::kBroken) return "";
    if (item.kind != Node::Kind::kScalar) return str("value ", i + 1, " is not a number");
    const std::string problem = ScalarReader(key, item)(&values[i]);
    if (!problem.empty()) return str("value ", i + 1, ", ", shown(item.text), ", ", problem);
  }
  field = values;
  return "";
}

std::string words(const NumberRange& range) {
  if (range.low_excluded) {
    return str("greater than ", range.low, range.high_excluded ? " and less than " : " and at most ",
               range.high);
  }
  return str("from ", range.low, range.high_excluded ? " to less than " : " to ", range.high);
}

}  // namespace

std::string assign(const Key& key, const Node& value, Recipe& recipe) {
  const Slot slot = key.slot(recipe);
  std::string problem;
  if (value.kind == Node::Kind::kList) {
    if (auto* const* pair = std::get_if<std::array<double, 2>*>(&slot)) {
      problem = assign_pair(key, value, **pair);
    } else {
      problem = "a list where one value belongs";
    }
  } else if (value.kind == Node::Kind::kMap) {
    problem = "a section where a value belongs";
  } else if (value.kind == Node::Kind::kNull) {
    return str("no value given; expected ", expected(key), "; remove the key for its default, ",
               written(key, Recipe()));
  } else if (value.kind == Node::Kind::kScalar) {
    problem = std::visit(ScalarReader(key, value), slot);
    if (!problem.empty()) problem = str(shown(value.text), " ", problem);
  }
  return problem.empty() ? "" : str(problem, "; expected ", expected(key));
}

std::string expected(const Key& key) {
  Recipe recipe;
  const bool pair = std::holds_alternative<std::array<double, 2>*>(key.slot(recipe));
  if (const auto* range = std::get_if<IntegerRange>(&key.rule)) {
    return str("an integer from ", range->low, " to ", range->high);
  }
  if (const auto* range = std::get_if<NumberRange>(&key.rule)) {
    return pair ? str("a list of two numbers, each ", words(*range), ", such as [0.9, 0.95]")
                : str("a number ", words(*range));
  }
  if (const auto* choices = std::get_if<Choices>(&key.rule)) {
    std::vector<std::string> values;
    for (const auto& choice : choices->values) values.push_back(choice.value);
    return (values.size() > 1 ? "one of: " : "") + join(values, ", ");
  }
  if (const auto* text = std::get_if<Text>(&key.rule)) {
    return *text == Text::kName ? "a name of letters, digits, '.', '_' and '-'" : "a path";
  }
  return "true or false";
}

}  // namespace echelon::recipe
