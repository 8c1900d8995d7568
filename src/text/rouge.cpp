#include "text/rouge.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace echelon {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kKelvinSign = "\xE2\x84\xAA";
constexpr std::string_view kDottedCapitalI = "\xC4\xB0";

/// The lower-case letter or digit of the character at text[at], or 0; `at` advances past it.
char letter_at(std::string_view text, std::size_t& at) {
  const std::string_view rest = text.substr(at);
  // The two non-ASCII characters whose lower case is ASCII or begins with it: Kelvin sign and dotted
  // capital I.
  if (rest.starts_with(kKelvinSign)) {
    at += kKelvinSign.size();
    return 'k';
  }
  if (rest.starts_with(kDottedCapitalI)) {
    at += kDottedCapitalI.size() - 1;  // its second byte is the dot, which ends the word
    return 'i';
  }
  const char c = text[at++];
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '\0';
}

Words words_of(std::string_view text) {
  Words words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char letter = letter_at(text, at);
    if (letter != '\0') {
      if (!inside) words.emplace_back();
      words.back().push_back(letter);
    }
    inside = letter != '\0';
  }
  return words;
}

double f_measure(double common, std::size_t generated, std::size_t reference) {
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(generated);
  const double recall = common / static_cast<double>(reference);
  return 2 * precision * recall / (precision + recall);
}

using Counts = std::map<std::vector<std::string_view>, std::size_t>;

Counts runs_of(const Words& words, std::size_t length) {
  Counts counts;
  for (std::size_t i = 0; i + length <= words.size(); ++i)
    ++counts[{words.begin() + static_cast<std::ptrdiff_t>(i),
              words.begin() + static_cast<std::ptrdiff_t>(i + length)}];
  return counts;
}

/// Over runs of `length` words, each counted as often as both texts have it.
double rouge_n(const Words& generated, const Words& reference, std::size_t length) {
  if (generated.size() < length || reference.size() < length) return 0;
  const Counts mine = runs_of(generated, length);
  double common = 0;
  for (const auto& [run, count] : runs_of(reference, length)) {
    const auto found = mine.find(run);
    if (found != mine.end()) common += static_cast<double>(std::min(count, found->second));
  }
  return f_measure(common, generated.size() + 1 - length, reference.size() + 1 - length);
}

/// Length of the longest common subsequence.
std::size_t common_sequence(const Words& a, const Words& b) {
  std::vector<std::size_t> longest(b.size() + 1, 0);  // of what is read of a, and each beginning of b
  for (const std::string& word : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = longest[j + 1];
      longest[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, longest[j]);
      diagonal = above;
    }
  }
  return longest.back();
}

}  // namespace

RougeScores rouge(std::string_view generated, std::string_view reference) {
  const Words mine = words_of(generated);
  const Words right = words_of(reference);
  return {rouge_n(mine, right, 1), rouge_n(mine, right, 2),
          f_measure(static_cast<double>(common_sequence(mine, right)), mine.size(), right.size())};
}

}  // namespace echelon
