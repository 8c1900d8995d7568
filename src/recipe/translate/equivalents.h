#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/options/choice.h"
#include "recipe/draft.h"

namespace echelon::recipe {

/// The programs whose configurations are translated.
enum class Trainer : std::uint8_t { kAxolotl, kAutoModel, kTorchtitan, kLlamaFactory, kTrainingArguments };
}  // namespace echelon::recipe
template <>
inline constexpr std::array<std::string_view, 5> echelon::kWords<echelon::recipe::Trainer>{
    "axolotl", "automodel", "torchtitan", "LLaMA-Factory", "transformers"};
namespace echelon::recipe {

/// Are its defaults those of TrainingArguments?
[[nodiscard]] constexpr bool takes_arguments(Trainer trainer) {
  return trainer == Trainer::kTrainingArguments || trainer == Trainer::kLlamaFactory;
}

/// Does it train with the Trainer of transformers?
[[nodiscard]] constexpr bool is_by_transformers(Trainer trainer) {
  return takes_arguments(trainer) || trainer == Trainer::kAxolotl;
}

/// What to do for a tracker of experiments.
inline constexpr std::string_view kTrackers =
    "a run writes metrics.jsonl; `echelon metrics RUN --to wandb` or mlflow exports it";

/// What becomes of a setting.
enum class Take : std::uint8_t {
  kCopy,   ///< its value is that of `key`
  kCount,  ///< the same, if it is a whole number above 0; 0 and below switch it off
  kText,   ///< the same, in quotes
  kWords,  ///< `text`: "theirs=ours theirs=ours"; other values have no equal
  kOwn,    ///< Echelon does it, or does without; nothing is lost
  kNone,   ///< no equal, unless it is off; `text`: what to do instead
  kOne,    ///< no equal, unless it is off, 1 or -1; `text` likewise
  kInput,  ///< several settings together make keys (translate.cpp)
};

struct Equivalent {
  /// Their paths, with blanks between them. One that ends with '.' or '_' is the begin of others.
  std::string_view theirs;
  Take take;
  std::string_view key;   ///< ours
  std::string_view text;  ///< by `take`
};

/// The first that fits a setting counts.
[[nodiscard]] std::span<const Equivalent> equivalents_of(Trainer trainer);

/// The value of `word` in "theirs=ours theirs=ours".
[[nodiscard]] std::optional<std::string> equal_of(std::string_view words, const std::string& word);

/// Keys whose default is another one there, with that.
[[nodiscard]] std::vector<DraftLine> defaults_of(Trainer trainer);

}  // namespace echelon::recipe
