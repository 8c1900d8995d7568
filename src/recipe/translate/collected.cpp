#include "recipe/translate/collected.h"

#include <algorithm>

#include "base/number.h"
#include "base/str.h"

namespace echelon::recipe {

void Collected::remark(const Setting& setting, std::string_view text) {
  remarks.push_back(
      str("line ", setting.line, ": ", printable(setting.path), ": ", printable(setting.text), "; ", text));
}

void Collected::make(std::string_view key, std::string_view value, std::string_view comment) {
  const std::string name(key);
  lines[name] = {name, std::string(value), std::string(comment)};
}

void Collected::make_default(const std::string& key, const std::string& value) {
  lines.try_emplace(key, DraftLine{key, value, std::string(kTheirDefault)});
}

std::string Collected::made(const std::string& key) const {
  const auto line = lines.find(key);
  return line == lines.end() ? "" : line->second.value;
}

const Setting* Collected::input(const std::string& key, std::string_view ending) const {
  const auto found = inputs.find(key);
  if (found == inputs.end()) return nullptr;
  const std::vector<Setting>& kept = found->second;
  const auto last = std::find_if(kept.rbegin(), kept.rend(),
                                 [&](const Setting& one) { return one.path.ends_with(ending); });
  return last == kept.rend() ? nullptr : &*last;
}

bool Collected::says(const std::string& key, std::string_view word) const {
  const Setting* setting = input(key);
  return setting != nullptr && setting->text == word;
}

std::optional<std::int64_t> Collected::count_of(const Setting& setting, std::string_view key) {
  std::int64_t value = 0;
  double number = 0;
  if (!read_integer(setting.text, value).empty()) {
    if (!read_number(setting.text, number).empty() || number < 1 ||
        number != static_cast<double>(static_cast<std::int64_t>(number))) {
      remark(setting, str(key, " is a whole number"));
      return std::nullopt;
    }
    value = static_cast<std::int64_t>(number);
  }
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> Collected::count(const std::string& key) {
  const Setting* setting = input(key);
  return setting == nullptr ? std::nullopt : count_of(*setting, key);
}

std::optional<std::int64_t> Collected::count_or_default(const std::string& key) {
  const std::string usual = made(key);
  if (usual.empty() || input(key) != nullptr) return count(key);
  return std::stoll(usual);
}

}  // namespace echelon::recipe
