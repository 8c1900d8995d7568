#include "recipe/yaml/scalar.h"

#include <algorithm>

#include "base/number.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "recipe/check/other_names.h"
#include "recipe/yaml/characters.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kMaxNameBytes = 100;
constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxPatternBytes = 200;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

std::string name_problem(const std::string& text) {
  if (text.empty()) return "is empty";
  if (text.size() > kMaxNameBytes) return str("is longer than ", kMaxNameBytes, " characters");
  if (text.find_first_not_of(kNameCharacters) != std::string::npos)
    return "has a character that is not allowed in a name";
  if (text[0] == '.' || text[0] == '-') return "starts with '.' or '-'";
  return "";
}

std::string path_problem(const std::string& text) {
  if (text.size() > kMaxPathBytes) return str("is longer than ", kMaxPathBytes, " bytes");
  if (const std::string problem = first_character_problem(text); !problem.empty())
    return "has a character that " + problem;
  if (text.starts_with('-')) return "starts with '-', which commands read as an option; write ./ before it";
  if (text.starts_with('~') || text.find('$') != std::string::npos) {
    return "has a '~' or '$' that is not expanded here; write the path out, or $HOME/... on the command line";
  }
  return "";
}

std::string pattern_problem(const std::string& text) {
  if (text.empty()) return "is empty";
  if (text.size() > kMaxPatternBytes) return str("is longer than ", kMaxPatternBytes, " bytes");
  const std::string allowed = str(kNameCharacters, "*?[]!");
  if (const std::size_t at = text.find_first_not_of(allowed); at != std::string::npos) {
    const std::string what = text[at] == ' ' ? "a blank" : text[at] == ',' ? "a ','" : "a character";
    return str("has ", what, " that a pattern cannot contain; write each pattern as a separate entry");
  }
  const std::size_t open = text.find('[');
  if (open != std::string::npos && text.find(']', open + 2) == std::string::npos)
    return "has a '[' without its ']'";
  return "";
}

}  // namespace

std::string read_phase(const std::string& text, SchedulePhase& phase) {
  const std::string word = text.substr(0, text.find(' '));
  const auto kind = choice_of<ScheduleKind>(word);
  if (!kind || std::ranges::find(kPhaseKinds, *kind) == kPhaseKinds.end()) {
    return str("does not start with one of: ", join(phase_kinds(), ", "));
  }
  std::int64_t steps = 0;
  if (word.size() < text.size()) {
    const std::string digits = text.substr(word.size() + 1);
    if (digits.find_first_not_of(kDigits) != digits.npos || !read_integer(digits, steps).empty())
      return "does not end in a number of steps, written in digits";
    if (steps < 1 || steps > kMaxSteps) return str("has a number of steps that is not from 1 to ", kMaxSteps);
  }
  phase = {*kind, steps};
  return "";
}

std::string read_bool(const std::string& text, bool& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return "";
  }
  const std::string lower = in_lower_case(text);
  if (has_word("true yes on y 1", lower)) return "must be written true";
  if (has_word("false no off n 0", lower)) return "must be written false";
  return "is not true or false";
}

std::string choice_problem(const std::string& path, const Choices& choices, const std::string& text) {
  const std::vector<std::string> values = words_of(choices);
  const auto is_value = [&](std::string_view word) {
    return std::ranges::find(values, word) != values.end();
  };
  if (is_value(text)) return "";
  const auto& planned = choices.planned;
  if (std::ranges::find(planned, text) != planned.end()) return "is not available in this version";
  const std::string word = in_lower_case(text);
  if (is_value(word)) return str("must be written ", word);
  for (const OtherValue& other : kOtherValues) {
    if (other.name == word && (other.path.empty() || other.path == path) && is_value(other.value))
      return str("is called ", other.value, " here");
  }
  return "is not a valid value";
}

std::string text_problem(Text kind, const std::string& text) {
  SchedulePhase ignored;
  switch (kind) {
    case Text::kName: return name_problem(text);
    case Text::kPath: return path_problem(text);
    case Text::kPattern: return pattern_problem(text);
    case Text::kTime: return text.empty() || parse_utc(text) ? "" : "is not a time";
    case Text::kPhase: return read_phase(text, ignored);
  }
  return "";
}

std::vector<std::string> words_of(const Choices& choices) {
  return mapped(choices.values, &Choices::Choice::value);
}

std::vector<std::string> phase_kinds() {
  return mapped<std::string>(kPhaseKinds, [](ScheduleKind kind) { return word_of(kind); });
}

}  // namespace echelon::recipe
