#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::recipe {

/// A key whose value differs between two recipes.
struct Change {
  std::string key;   ///< "optim.lr"
  std::string then;  ///< both values as YAML text
  std::string now;
};

/// The keys whose values differ and that are used by at least one of the two recipes, in table order. Values
/// derived from other keys (model.head_size: 0) are compared as the values they resolve to.
[[nodiscard]] std::vector<Change> changes(const Recipe& then, const Recipe& now);

/// Returns whether the key changes what the model computes from given weights, not only how they are trained:
/// all keys of sections `model` and `lora` except the names of preset and folder, weight initialization,
/// dropout, and what is trained besides adapters.
[[nodiscard]] bool describes_model(std::string_view key);

/// The changes of keys for which describes_model() is true.
[[nodiscard]] std::vector<Change> of_model(std::vector<Change> changes);

/// Returns of_model() without section `lora` where only one of the recipes has adapters: for weights that a
/// run starts from, whose model may be the base of adapters.
[[nodiscard]] std::vector<Change> of_base(const std::vector<Change>& changes);

/// The changes of keys that decide which samples a step trains on.
[[nodiscard]] std::vector<Change> of_data(std::vector<Change> changes);

/// "optim.lr 0.001 -> 0.002, train.steps 10 -> 20"; long values are truncated.
[[nodiscard]] std::string describe(const std::vector<Change>& changes);

}  // namespace echelon::recipe
