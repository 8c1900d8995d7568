#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/options/choice.h"
#include "recipe/keys/keys.h"

/// The path and accessor of a table row. The path is the field's name, so the two cannot diverge.
#define ECHELON_KEY(field) #field, [](Recipe & recipe) -> Slot { return slot_of(recipe.field); }

namespace echelon::recipe {

/// The rule of a key that takes every value of its type.
inline constexpr std::monostate kAny{};

/// The rule of a key with these choices: each value's word and its meaning.
template <HasWords Choice>
[[nodiscard]] Choices choices(std::initializer_list<std::pair<Choice, const char*>> each,
                              std::vector<std::string> planned = {}) {
  Choices all{{}, std::move(planned)};
  for (const auto& [choice, meaning] : each) all.values.push_back({std::string(word_of(choice)), meaning});
  return all;
}

/// The rule of a key with these types of numbers; `unset`: the meaning of that word.
[[nodiscard]] Choices float_types(std::initializer_list<FloatType> types, const char* unset = "");

/// The rows of all parts, one after the other.
[[nodiscard]] std::vector<Key> joined(const std::vector<std::vector<Key>>& parts);

// The rows of each section; keys() joins them.
[[nodiscard]] std::vector<Key> run_keys();
[[nodiscard]] std::vector<Key> model_keys();
[[nodiscard]] std::vector<Key> lora_keys();
[[nodiscard]] std::vector<Key> shard_keys();
[[nodiscard]] std::vector<Key> precision_keys();
[[nodiscard]] std::vector<Key> activation_checkpointing_keys();
[[nodiscard]] std::vector<Key> data_keys();
[[nodiscard]] std::vector<Key> validation_keys();
[[nodiscard]] std::vector<Key> image_keys();
[[nodiscard]] std::vector<Key> optim_keys();
[[nodiscard]] std::vector<Key> schedule_keys();
[[nodiscard]] std::vector<Key> train_keys();
[[nodiscard]] std::vector<Key> evaluation_keys();
[[nodiscard]] std::vector<Key> checkpoint_keys();
[[nodiscard]] std::vector<Key> metrics_keys();
[[nodiscard]] std::vector<Key> cluster_keys();

}  // namespace echelon::recipe
