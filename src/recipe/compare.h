#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace echelon::recipe {

/// A key that has another value in one recipe than in another.
struct Change {
  std::string key;   ///< "optim.lr"
  std::string then;  ///< both as YAML writes them
  std::string now;
};

/// Every key whose value differs and means something in one of the two, in the order of the table. Values
/// that a recipe leaves to others of its keys (model.head_size: 0) count as what they stand for.
[[nodiscard]] std::vector<Change> changes(const Recipe& then, const Recipe& now);

/// Does the key say what the model computes from its weights, and not only how they are trained? Those of
/// section `model`, but for the preset's name, initial weights and dropout.
[[nodiscard]] bool describes_model(std::string_view key);

/// Of these changes those of keys that describe the model.
[[nodiscard]] std::vector<Change> of_model(const std::vector<Change>& changes);

/// "optim.lr 0.001 -> 0.002, train.steps 10 -> 20"; values are cut where they are long.
[[nodiscard]] std::string describe(const std::vector<Change>& changes);

}  // namespace echelon::recipe
