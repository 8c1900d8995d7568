#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shapes/shapes.h"

/// The matrices of a model that have an adapter (LoRA), and the names of its tensors: those of peft without
/// "base_model.model.".
namespace echelon {

/// A matrix [outputs, inputs] with an adapter: A [rank, inputs], B [outputs, rank].
struct AdaptedMatrix {
  std::string module;  ///< "model.layers.0.self_attn.q_proj"
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

/// Returns the matrices with an adapter in the order of tensors_of(). Empty without adapters.
[[nodiscard]] std::vector<AdaptedMatrix> adapted_matrices(const ModelOptions& model, const LoraOptions& lora);

/// "model.layers.0.self_attn.q_proj" -> "model.layers.0.self_attn.q_proj.lora_A.weight"
[[nodiscard]] std::string adapter_a(std::string_view module);
[[nodiscard]] std::string adapter_b(std::string_view module);
/// Returns whether a tensor of this name is an A or a B.
[[nodiscard]] bool is_adapter(std::string_view tensor);
/// "model.norm.weight" -> "model.norm"
[[nodiscard]] std::string_view module_of(std::string_view tensor);

/// Returns whether the recipe trains this tensor of the model or its adapters. Always true without adapters.
[[nodiscard]] bool is_trained(const LoraOptions& lora, std::string_view tensor);

/// The modules that are trained whole, by their full names.
[[nodiscard]] std::vector<std::string> modules_trained_whole(const ModelOptions& model,
                                                             const LoraOptions& lora);
/// The matrices with an adapter as peft's target_modules: "q_proj" where those of all blocks have one, full
/// names elsewhere.
[[nodiscard]] std::vector<std::string> target_modules(const ModelOptions& model, const LoraOptions& lora);

/// The factor on B(A(x)).
[[nodiscard]] double lora_scale(const LoraOptions& lora);

/// Every weight of the model with its adapters.
[[nodiscard]] std::vector<TensorShape> tensors_of(const ModelOptions& model, const LoraOptions& lora);
/// Parameters of all adapters; nothing if they exceed 64 bits.
[[nodiscard]] std::optional<std::int64_t> adapter_parameters(const ModelOptions& model,
                                                             const LoraOptions& lora);

/// A fault of the section for this model.
struct LoraFault {
  std::vector<std::string> keys;  ///< of the recipe, first the one to change
  std::string text;
};
/// A kind of model without adapters; a pattern that matches nothing, or a module that can have no adapter; a
/// module that both lists name.
[[nodiscard]] std::vector<LoraFault> lora_faults(const ModelOptions& model, const LoraOptions& lora);

}  // namespace echelon
