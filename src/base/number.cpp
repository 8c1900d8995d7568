#include "base/number.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iomanip>

#include "base/str.h"

namespace echelon {
namespace {

constexpr std::string_view kDigits = "0123456789";

std::string_view without_sign(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text;
}

/// Returns why a text that looks like a number is none, for notations that YAML readers disagree on; or "".
std::string notation_problem(std::string_view text) {
  const std::string_view digits = without_sign(text);
  const std::string lower = in_lower_case(digits);
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
    return "starts with 0, which some parsers read as octal; write it without leading zeros";
  return "";
}

/// Reads all of a decimal integer or, into a double, a decimal fraction with exponent; invalid_argument for
/// any other text.
template <class Number>
std::errc read_decimal(std::string_view text, Number& value) {
  const std::string_view digits = without_sign(text);
  if (digits.find_first_of("0123456789.") != 0) return std::errc::invalid_argument;
  if (text.starts_with('+')) text = digits;
  Number read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (end != text.data() + text.size()) return std::errc::invalid_argument;
  if (error == std::errc()) value = read;
  return error;
}

}  // namespace

std::string read_integer(const std::string& text, std::int64_t& value) {
  if (const std::string problem = notation_problem(text); !problem.empty()) return problem;
  const std::errc error = read_decimal(text, value);
  if (error == std::errc()) return "";
  if (error == std::errc::result_out_of_range) return "does not fit in 64 bits";
  double number = 0;
  const bool whole =
      read_decimal(text, number) == std::errc() && std::abs(number) < 1e15 && number == std::floor(number);
  return whole ? str("is not written as an integer; write ", static_cast<std::int64_t>(number))
               : "is not an integer";
}

std::string read_number(const std::string& text, double& value) {
  if (const std::string problem = notation_problem(text); !problem.empty()) return problem;
  const std::errc error = read_decimal(text, value);
  if (error == std::errc::invalid_argument) return "is not a number";
  return error == std::errc() ? "" : "cannot be held in double precision";
}

std::string read_bytes(const std::string& text, double& value) {
  constexpr std::string_view kWhat = "is not a number of bytes; expected such as 16GiB, 1.5GB or 4096B";
  constexpr std::string_view kPrefixes = "kmgtp";
  const std::size_t end = text.find_last_not_of("bBiIkKmMgGtTpP") + 1;  // 0: no number
  std::string unit = in_lower_case(std::string_view(text).substr(end));
  if (end == 0 || !read_number(text.substr(0, end), value).empty() || value <= 0) return std::string(kWhat);
  if (unit.empty()) return str("has no unit; expected such as ", text, "GiB, ", text, "GB or ", text, 'B');
  if (unit.ends_with('b')) unit.pop_back();
  if (unit.empty()) return "";
  const double base = unit.ends_with('i') ? 1024 : 1000;
  if (unit.ends_with('i')) unit.pop_back();
  const std::size_t power = unit.size() == 1 ? kPrefixes.find(unit[0]) : kPrefixes.npos;
  if (power == kPrefixes.npos) return std::string(kWhat);
  value *= std::pow(base, static_cast<double>(power + 1));
  return "";
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return lower;
}

std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (!word.empty()) words.push_back(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return words;
}

bool has_word(std::string_view text, std::string_view word) {
  const std::vector<std::string_view> words = words_in(text);
  return std::ranges::find(words, word) != words.end();
}

bool belongs_in_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return std::string(text.substr(0, text.find_last_not_of(kBlanks) + 1));
}

std::string fixed(double value, int digits) {
  return str(std::fixed, std::setprecision(digits), value);
}

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

}  // namespace echelon
