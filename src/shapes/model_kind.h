#pragma once
#include <cstdint>

#include "base/options/choice.h"

namespace echelon {

/// Language models are named as `model_type` in transformers.
enum class ModelKind : std::uint8_t {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kOlmo2,
  kOlmo3,
  kSmolLm3,
  kGranite,
  kPhi3,
  kGemma3Text,
  kGpt2,
  kGptNeoX,
  kT5,
  kVit,
  kDeepVit,
  kCnn
};
template <>
inline constexpr std::array<std::string_view, 16> kWords<ModelKind>{
    "llama", "mistral",     "qwen2", "qwen3",    "olmo2", "olmo3", "smollm3", "granite",
    "phi3",  "gemma3_text", "gpt2",  "gpt_neox", "t5",    "vit",   "deepvit", "cnn"};

/// True for models of images; all others read text.
[[nodiscard]] constexpr bool takes_images(ModelKind kind) {
  return kind == ModelKind::kVit || kind == ModelKind::kDeepVit || kind == ModelKind::kCnn;
}
/// True for models that train on pairs of texts: source and target.
[[nodiscard]] constexpr bool takes_pairs(ModelKind kind) {
  return kind == ModelKind::kT5;
}
/// True for language models without an encoder.
[[nodiscard]] constexpr bool is_decoder_only(ModelKind kind) {
  return !takes_images(kind) && !takes_pairs(kind);
}

}  // namespace echelon
