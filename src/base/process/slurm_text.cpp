#include "base/process/slurm_text.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/number.h"
#include "base/str.h"

namespace echelon {
namespace {

/// Length of the name in a word "Name=value"; 0 if the word has another form.
std::size_t field_name_length(const std::string& word) {
  const auto end = std::ranges::find_if_not(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '/';
  });
  return end != word.end() && *end == '=' ? static_cast<std::size_t>(end - word.begin()) : 0;
}

}  // namespace

std::string SlurmRecord::operator[](const std::string& field) const {
  const auto found = fields.find(field);
  return found == fields.end() || found->second == "(null)" ? "" : found->second;
}

SlurmRecord parse_slurm_settings(std::string_view text) {
  SlurmRecord record;
  for (const std::string& line : split(text, '\n')) {
    const auto equal = line.find('=');
    if (equal != line.npos) record.fields[trimmed(line.substr(0, equal))] = trimmed(line.substr(equal + 1));
  }
  return record;
}

SlurmRecord parse_slurm_record(const std::string& text) {
  SlurmRecord record;
  std::string passed_over;
  std::string* value = &passed_over;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (const std::size_t name = field_name_length(word); name > 0) {
      const auto [field, is_new] = record.fields.try_emplace(word.substr(0, name), word.substr(name + 1));
      value = is_new ? &field->second : &passed_over;
    } else {
      *value += " " + word;
    }
  }
  return record;
}

std::vector<SlurmRecord> parse_slurm_records(std::string_view text) {
  std::vector<SlurmRecord> records;
  for (const std::string& line : split(text, '\n')) {
    SlurmRecord record = parse_slurm_record(line);
    if (!record.fields.empty()) records.push_back(std::move(record));
  }
  return records;
}

std::optional<std::int64_t> slurm_seconds(const std::string& text) {
  constexpr std::size_t kMostDigits = 6;  // so that nothing overflows
  std::vector<std::int64_t> numbers;
  bool has_days = false;
  for (std::string_view rest = text;;) {
    const std::size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    if (digits == 0 || digits > kMostDigits) return std::nullopt;
    numbers.push_back(std::stoll(std::string(rest.substr(0, digits))));
    rest.remove_prefix(digits);
    if (rest.empty()) break;
    const bool first = numbers.size() == 1;
    if (first && rest == " sec") return numbers[0];
    if (first && rest.front() == '-') has_days = true;
    if (rest.front() != ':' && !(first && has_days)) return std::nullopt;
    rest.remove_prefix(1);
  }
  // Without days, one number is minutes, and two are minutes and seconds.
  if (!has_days) numbers.insert(numbers.begin(), numbers.size() < 3 ? 2 : 1, 0);
  if (numbers.size() > 4) return std::nullopt;
  numbers.resize(4);
  return ((numbers[0] * 24 + numbers[1]) * 60 + numbers[2]) * 60 + numbers[3];
}

}  // namespace echelon
