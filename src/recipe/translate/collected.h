#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/draft.h"
#include "recipe/translate/equivalents.h"
#include "recipe/translate/settings.h"

namespace echelon::recipe {

/// The comment of a line that no setting made.
inline constexpr std::string_view kTheirDefault = "its default there";

/// The lines of a translated recipe so far, and the settings that several of them are made of.
struct Collected {
  void remark(const Setting& setting, std::string_view text);
  void make(std::string_view key, std::string_view value, std::string_view comment);
  /// Makes a line that is not there yet.
  void make_default(const std::string& key, const std::string& value);
  /// The value of a line so far; empty: there is none.
  [[nodiscard]] std::string made(const std::string& key) const;
  /// The last setting that was kept for `key` and whose path ends with `ending`; null: there is none.
  [[nodiscard]] const Setting* input(const std::string& key, std::string_view ending = "") const;
  [[nodiscard]] bool says(const std::string& key, std::string_view word) const;
  /// The value as a count of `key`, above 0; what is no whole number is remarked.
  std::optional<std::int64_t> count_of(const Setting& setting, std::string_view key);
  std::optional<std::int64_t> count(const std::string& key);
  /// count(); the line so far, which is their default, if there is no such setting.
  std::optional<std::int64_t> count_or_default(const std::string& key);

  std::map<std::string, DraftLine> lines;
  std::map<std::string, std::vector<Setting>> inputs;  ///< by the key for which they are kept
  std::vector<std::string> remarks;
};

/// Makes the lines of section `schedule`. `steps`: of the run, where they are known; `stated`: the
/// configuration has a section lr_scheduler.
void make_schedule(Trainer trainer, std::optional<std::int64_t> steps, bool stated, Collected& recipe);

/// Makes the lines of section `lora`, if adapters are trained. `stated`: the configuration has a section
/// peft.
void make_adapters(Trainer trainer, bool stated, Collected& recipe);

/// Makes the lines of train.dpo and returns true, if the objective is that of DPO.
bool make_preference(Trainer trainer, Collected& recipe);

/// Options of `echelon prepare` for the lines of axolotl's `datasets`, each with a blank in front. Empty too
/// where the data sets have different forms or the configuration does not say them, which is remarked.
[[nodiscard]] std::string line_form(Trainer trainer, Collected& recipe);

}  // namespace echelon::recipe
