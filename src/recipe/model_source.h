#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// The source of the keys of section `model` that no text states: model.from or model.preset.
struct ModelSource {
  ModelOptions model;
  std::string origin;              ///< "preset llama_8b", "config.json of 'hf'"; empty: there is none
  bool is_folder = false;          ///< model.from, which does not know model.init_std
  std::vector<Conflict> problems;  ///< keys that are given and contradict it, or why it cannot be read
};

/// `is_given`: whether a text states the key. A folder is not read if `reads_folder` is false, as the recipe
/// of a checkpoint states every value; nor if it is gone and every value is stated, as in a recipe that was
/// resolved.
[[nodiscard]] ModelSource model_source(const Recipe& recipe,
                                       const std::function<bool(const std::string&)>& is_given,
                                       bool reads_folder);

/// Returns whether `source` sets the key if no text states it.
[[nodiscard]] bool sets(const ModelSource& source, std::string_view key);

}  // namespace echelon::recipe
