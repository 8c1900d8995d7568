#pragma once
#include <string>
#include <vector>

#include "checkpoint/writer.h"

namespace echelon::tool {

/// What a config.json says about a model, as far as its weights are concerned.
struct ModelDescription {
  std::string kind;  ///< as recipes call it
  std::vector<checkpoint::TensorInfo>
      tensors;  ///< every parameter, under its Hugging Face name; types are not set
  /// {"lm_head.weight", "model.embed_tokens.weight"}: the first may be stored besides the second and must
  /// then be equal; it is no parameter of its own.
  struct Tied {
    std::string name;
    std::string same_as;
  };
  std::vector<Tied> tied;
  /// Matrices that Hugging Face stores with rows and columns exchanged (the Conv1D layers of GPT-2).
  std::vector<std::string> transposed;
  std::vector<std::string> ignored_endings;  ///< of buffers that old exports carry and nobody needs
  std::string recipe;                        ///< the section `model` of a recipe for it
};

/// Throws Error(kCheckpoint), naming `what`, when it is no sound config.json, is of a model the trainer does
/// not have, or asks for something the trainer's version does not compute: weights must never be trained as
/// what they are not.
[[nodiscard]] ModelDescription describe_model(const std::string& config, const std::string& what);

}  // namespace echelon::tool
