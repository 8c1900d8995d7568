#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/format/tensor.h"
#include "families/model_config.h"
#include "shapes/options.h"

namespace echelon::families {

/// Endings of tensor names.
using NameEndings = std::vector<std::string>;
[[nodiscard]] bool has_ending(const std::string& name, const NameEndings& endings);

using HasTensor = std::function<bool(const std::string& name)>;

/// The description of a model's weights, from its config.json.
struct ModelDescription {
  ModelKind kind = ModelKind::kLlama;
  ModelOptions options;
  /// Every parameter, under its Hugging Face name; types are not set.
  std::vector<checkpoint::TensorInfo> tensors;
  /// {"lm_head.weight", "model.embed_tokens.weight"}: the first may be stored besides the second and must
  /// then be equal; it is no parameter of its own.
  struct Tied {
    std::string name;
    std::string same_as;
  };
  std::vector<Tied> tied;
  /// Parameters that are not in the files, and the ones whose values they start with.
  std::map<std::string, std::string> copies;
  std::string head = "lm_head.weight";
  NameEndings transposed;  ///< see transposed_endings()
  /// The prefix of every name in files of the whole model ("transformer."); files of its trunk have it
  /// nowhere.
  std::string optional_prefix;
  NameEndings ignored;           ///< of buffers that old exports carry and nobody needs
  std::string recipe;            ///< the section `model` of a recipe for it
  double attention_dropout = 0;  ///< of attention probabilities, by config.json; the trainer has none
  /// Members to set in config.json, because versions of transformers read what is there differently.
  ConfigMembers config_members;

  /// Sets `kind`, `options` and `tensors` to those of `model`; tensors of `transposed` with rows and columns
  /// exchanged.
  void list_tensors(const ModelOptions& model);
  /// Returns whether a second layer, the head, uses the parameter: it is tied, and no tensor of its own is
  /// among the weights.
  [[nodiscard]] bool is_shared(const std::string& name, const HasTensor& has_tensor) const;
  /// Warns where training does not do what config.json says.
  void tell_of_training() const;
  /// A recipe to sample with, or to start from.
  [[nodiscard]] std::string whole_recipe() const;
};

/// Throws Error(kCheckpoint), naming `what`, when it is no sound config.json, is of a model the trainer does
/// not have, or asks for something the trainer's version does not compute: weights must never be trained as
/// what they are not. `has_tensor` returns whether the weights contain a tensor, by Hugging Face name.
[[nodiscard]] ModelDescription describe_model(const std::string& config, const std::string& what,
                                              Purpose purpose, const HasTensor& has_tensor);

/// The config.json with which transformers 4 and 5 load exported weights of the model. Where transformers has
/// no such model, it lists the options of this one.
[[nodiscard]] std::string hugging_face_config(const ModelOptions& model);

/// Returns the name endings of the matrices that Hugging Face stores with rows and columns exchanged (the
/// Conv1D layers of GPT-2). None for a model that describe_model() does not know.
[[nodiscard]] NameEndings transposed_endings(const std::string& config);

/// Each function completes `model`, whose `transposed` is already set. The first describes all families of
/// Llama's decoder.
void describe_llama(ModelConfig& config, const HasTensor& has_tensor, ModelDescription& model);
void describe_gpt2(ModelConfig& config, const HasTensor& has_tensor, ModelDescription& model);
void describe_gpt_neox(ModelConfig& config, const HasTensor& has_tensor, ModelDescription& model);
void describe_t5(ModelConfig& config, const HasTensor& has_tensor, ModelDescription& model);

/// The inverse of each: members of hugging_face_config(), without those that it states for all families.
[[nodiscard]] checkpoint::Json llama_config(const ModelOptions& model);
[[nodiscard]] checkpoint::Json gpt2_config(const ModelOptions& model);
[[nodiscard]] checkpoint::Json gpt_neox_config(const ModelOptions& model);
[[nodiscard]] checkpoint::Json t5_config(const ModelOptions& model);

/// Refuses, on import, a head of which rotary positions would not turn pairs of elements.
void require_pairs(const ModelConfig& config, const ModelOptions& model);

/// The number as recipes write it: 500000, 1e-05.
[[nodiscard]] std::string number_text(double value);

}  // namespace echelon::families
