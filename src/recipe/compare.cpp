#include "recipe/compare.h"

#include <algorithm>

#include "base/number.h"
#include "base/str.h"
#include "recipe/check/contradictions.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/writer.h"
#include "shapes/lora.h"

namespace echelon::recipe {
namespace {

constexpr std::size_t kLongestShown = 60;

/// Replaces each 0 that means "derive from other keys" by the derived value where `other` states one: a value
/// that neither recipe states follows from keys that are compared themselves. The modules with adapters get
/// the names that peft would give them, since many lists of patterns mean the same.
Recipe spelled_out(const Recipe& recipe, const Recipe& other) {
  Recipe full = recipe;
  ModelOptions& model = full.model;
  if (other.model.decoder_layers != 0) model.decoder_layers = decoder_layers(model);
  if (other.model.head_size != 0 && model.heads > 0) model.head_size = head_size(model);
  if (other.model.rope_scaling.original_positions != 0)
    model.rope_scaling.original_positions = original_positions(model);
  if (full.lora.rank > 0 && other.lora.rank > 0) full.lora.modules = target_modules(full.model, full.lora);
  return full;
}

}  // namespace

std::vector<Change> changes(const Recipe& then, const Recipe& now) {
  const Recipe before = spelled_out(then, now);
  const Recipe after = spelled_out(now, then);
  std::vector<Change> found;
  for (const Key& key : keys()) {
    Change change{key.path, written(key, before), written(key, after)};
    if (change.then == change.now) continue;
    if (is_used(key.path, before) || is_used(key.path, after)) found.push_back(std::move(change));
  }
  return found;
}

bool describes_model(std::string_view key) {
  return (key.starts_with("model.") || key.starts_with("lora.")) &&
         !has_word("model.preset model.from model.init_std model.dropout lora.dropout lora.also_train", key);
}

std::vector<Change> of_model(std::vector<Change> changes) {
  std::erase_if(changes, [](const Change& change) { return !describes_model(change.key); });
  return changes;
}

std::vector<Change> of_base(const std::vector<Change>& changes) {
  const bool one_has_none = std::ranges::any_of(changes, [](const Change& change) {
    return change.key == "lora.rank" && (change.then == "0" || change.now == "0");
  });
  std::vector<Change> found = of_model(changes);
  if (one_has_none)
    std::erase_if(found, [](const Change& change) { return change.key.starts_with("lora."); });
  return found;
}

std::vector<Change> of_data(std::vector<Change> changes) {
  static constexpr std::string_view kReading =
      "data.workers data.prefetch_batches data.tokenizer data.on_bad_record data.max_bad_records";
  std::erase_if(changes, [](const Change& change) {
    if (change.key == "run.seed") return false;
    return !change.key.starts_with("data.") || change.key.starts_with("data.validation.") ||
           has_word(kReading, change.key);
  });
  return changes;
}

std::string describe(const std::vector<Change>& changes) {
  const auto told = [](const Change& change) {
    return str(change.key, ' ', printable(change.then, kLongestShown), " -> ",
               printable(change.now, kLongestShown));
  };
  return join(mapped(changes, told), ", ");
}

}  // namespace echelon::recipe
