#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "shapes/options.h"

/// The families of Llama's decoder. What a recipe cannot choose about one stands in its row here.
namespace echelon {

/// Which results of a block are normalized, and the names of the norms.
enum class BlockNorms : std::uint8_t {
  kBefore,  ///< inputs: input_layernorm of attention, post_attention_layernorm of feed-forward
  kAfter,   ///< outputs: post_attention_layernorm of attention, post_feedforward_layernorm of feed-forward
  kAround,  ///< both: input_layernorm and pre_feedforward_layernorm, and the outputs' as in kAfter
};

/// Norms of queries and keys, before they are rotated.
enum class QueryKeyNorms : std::uint8_t {
  kNone,
  kEachHead,
  kAllHeads,  ///< one norm over the elements of all heads
};

/// Blocks with model.window, and how a config.json states them.
enum class Windows : std::uint8_t {
  kNone,
  kAll,         ///< sliding_window
  kFromLayer,   ///< use_sliding_window, sliding_window, max_window_layers
  kLayerTypes,  ///< sliding_window, layer_types
};

/// A row of the table: how a family differs from Llama.
struct LlamaFamily {
  ModelKind kind;
  const char* architecture;  ///< transformers' class
  bool has_biases = false;   ///< of queries, keys and values
  QueryKeyNorms query_key_norms = QueryKeyNorms::kNone;
  BlockNorms block_norms = BlockNorms::kBefore;
  std::optional<NormRounding> norm_rounding = {};  ///< nothing: model.norm_rounding
  bool scales_rope = true;                         ///< model.rope_scaling is used
  bool turns_part = false;                         ///< model.partial_rotary_factor is used
  Windows windows = Windows::kNone;
  bool own_window_rope = false;    ///< blocks with a window have rotary positions that are never stretched
  bool fuses_products = false;     ///< qkv_proj and gate_up_proj are one tensor each
  bool gates_by_gelu = false;      ///< GELU by tanh in place of SiLU
  bool scales_embeddings = false;  ///< embeddings times the root of hidden_size
};

inline constexpr std::array kLlamaFamilies{
    LlamaFamily{ModelKind::kLlama, "LlamaForCausalLM"},
    LlamaFamily{.kind = ModelKind::kMistral, .architecture = "MistralForCausalLM", .windows = Windows::kAll},
    LlamaFamily{.kind = ModelKind::kQwen2,
                .architecture = "Qwen2ForCausalLM",
                .has_biases = true,
                .windows = Windows::kFromLayer},
    LlamaFamily{.kind = ModelKind::kQwen3,
                .architecture = "Qwen3ForCausalLM",
                .query_key_norms = QueryKeyNorms::kEachHead,
                .windows = Windows::kFromLayer},
    LlamaFamily{.kind = ModelKind::kOlmo2,
                .architecture = "Olmo2ForCausalLM",
                .query_key_norms = QueryKeyNorms::kAllHeads,
                .block_norms = BlockNorms::kAfter,
                .norm_rounding = NormRounding::kOnce,
                .scales_rope = false},
    LlamaFamily{.kind = ModelKind::kOlmo3,
                .architecture = "Olmo3ForCausalLM",
                .query_key_norms = QueryKeyNorms::kAllHeads,
                .block_norms = BlockNorms::kAfter,
                .norm_rounding = NormRounding::kOnce,
                .windows = Windows::kLayerTypes,
                .own_window_rope = true},
    LlamaFamily{.kind = ModelKind::kSmolLm3, .architecture = "SmolLM3ForCausalLM"},
    LlamaFamily{.kind = ModelKind::kGranite, .architecture = "GraniteForCausalLM"},
    LlamaFamily{.kind = ModelKind::kPhi3,
                .architecture = "Phi3ForCausalLM",
                .turns_part = true,
                .windows = Windows::kAll,
                .fuses_products = true},
    LlamaFamily{.kind = ModelKind::kGemma3Text,
                .architecture = "Gemma3ForCausalLM",
                .query_key_norms = QueryKeyNorms::kEachHead,
                .block_norms = BlockNorms::kAround,
                .norm_rounding = NormRounding::kOncePlusOne,
                .windows = Windows::kLayerTypes,
                .own_window_rope = true,
                .gates_by_gelu = true,
                .scales_embeddings = true},
};

/// Null for a kind that is none of Llama's families.
[[nodiscard]] constexpr const LlamaFamily* find_llama_family(ModelKind kind) {
  const auto* found = std::find_if(kLlamaFamilies.begin(), kLlamaFamilies.end(),
                                   [&](const LlamaFamily& family) { return family.kind == kind; });
  return found == kLlamaFamilies.end() ? nullptr : found;
}
[[nodiscard]] constexpr bool is_llama_family(ModelKind kind) {
  return find_llama_family(kind) != nullptr;
}

/// What computes a model: one class for all families of Llama's decoder.
enum class ModelClass : std::uint8_t { kLlama, kGpt2, kGptNeoX, kT5, kVit, kDeepVit, kCnn };
static_assert(kLlamaFamilies.size() + 6 == kWords<ModelKind>.size(), "a kind of model without a class");

[[nodiscard]] constexpr ModelClass class_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::kGpt2: return ModelClass::kGpt2;
    case ModelKind::kGptNeoX: return ModelClass::kGptNeoX;
    case ModelKind::kT5: return ModelClass::kT5;
    case ModelKind::kVit: return ModelClass::kVit;
    case ModelKind::kDeepVit: return ModelClass::kDeepVit;
    case ModelKind::kCnn: return ModelClass::kCnn;
    default: return ModelClass::kLlama;
  }
}

/// The rounding of the model's RMSNorms.
[[nodiscard]] constexpr NormRounding norm_rounding(const ModelOptions& model) {
  const LlamaFamily* family = find_llama_family(model.kind);
  return family == nullptr ? model.norm_rounding : family->norm_rounding.value_or(model.norm_rounding);
}

/// The factor on products of queries and keys.
[[nodiscard]] inline double attention_scale(const ModelOptions& model) {
  if (model.attention_multiplier > 0) return model.attention_multiplier;
  const std::int64_t divisor =
      model.query_pre_attn_scalar > 0 ? model.query_pre_attn_scalar : head_size(model);
  return 1.0 / std::sqrt(static_cast<double>(divisor));
}

/// Whether the tokens of block number `block` see model.window tokens only.
[[nodiscard]] constexpr bool has_window(const ModelOptions& model, std::int64_t block) {
  const std::int64_t every = model.full_attention_every;
  return model.window > 0 && block >= model.window_from_layer && (every == 0 || (block + 1) % every != 0);
}
/// Whether block number `block` rotates queries and keys by their positions.
[[nodiscard]] constexpr bool has_rope(const ModelOptions& model, std::int64_t block) {
  return model.no_rope_every == 0 || (block + 1) % model.no_rope_every != 0;
}

}  // namespace echelon
