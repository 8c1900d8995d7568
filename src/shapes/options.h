#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/options/choice.h"
#include "shapes/model_kind.h"

namespace echelon {

enum class FeedForward : std::uint8_t {
  kRelu,       ///< two matrices, as T5 v1.0
  kGatedGelu,  ///< three matrices, as T5 v1.1
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<FeedForward>{"relu", "gated_gelu"};

/// The activation of GPT-NeoX's feed-forward, by transformers' names.
enum class HiddenAct : std::uint8_t {
  kGelu,
  kGeluFast,  ///< gelu in its approximation with tanh
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<HiddenAct>{"gelu", "gelu_fast"};

template <>
inline constexpr std::array<std::string_view, 2> kWords<NormRounding>{"twice", "once"};

/// The stretching of rotary frequencies for sequences longer than those of pretraining; transformers'
/// `rope_type`.
enum class RopeKind : std::uint8_t {
  kDefault,   ///< not at all
  kLinear,    ///< all by the factor
  kDynamic,   ///< only beyond original_positions, which no sequence may exceed here
  kLlama3,    ///< by wavelength: short ones not, long ones by the factor
  kLongRope,  ///< each by a factor of its own; sequences beyond original_positions are not computed here
  kYarn,      ///< Peng et al., YaRN: by the number of turns within original_positions
};
template <>
inline constexpr std::array<std::string_view, 6> kWords<RopeKind>{"default", "linear",   "dynamic",
                                                                  "llama3",  "longrope", "yarn"};

/// Recipe section `model.rope_scaling`.
struct RopeScalingOptions {
  RopeKind kind = RopeKind::kDefault;
  double factor = 1.0;
  std::int64_t original_positions = 0;  ///< longest sequence of pretraining; 0: max_positions
  double low_freq_factor = 1.0;         ///< llama3
  double high_freq_factor = 4.0;        ///< llama3
  double beta_fast = 32.0;              ///< yarn: turns from which a frequency is kept
  double beta_slow = 1.0;               ///< yarn: turns below which it is divided by the factor
  double attention_factor = 0.0;        ///< yarn: factor on queries and keys; 0: 0.1 ln(factor) + 1
  std::vector<double> short_factor{};   ///< longrope: of each frequency, within original_positions
  std::vector<double> long_factor{};    ///< longrope: the same beyond them; kept for exports
  bool truncate = true;                 ///< yarn: the borders of the ramp are whole numbers
};

/// Recipe section `model`. The defaults are the 179 M Llama of the FSDP2 article.
/// recipe/check/contradictions.cpp lists which kinds use which key.
struct ModelOptions {
  ModelKind kind = ModelKind::kLlama;
  std::string preset = "none";  ///< published model (recipe/model_presets.h) that sets the keys not given
  std::string from{};  ///< Hugging Face folder that sets the sizes, and whose weights a new run starts from
  std::int64_t vocab_size = 50000;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 3072;  ///< inner width of the feed-forward block
  std::int64_t layers = 12;               ///< t5: blocks of the encoder
  std::int64_t heads = 12;
  std::int64_t kv_heads = 3;          ///< grouped-query attention, heads % kv_heads == 0
  std::int64_t max_positions = 2048;  ///< longest sequence
  double norm_eps = 1e-5;
  NormRounding norm_rounding = NormRounding::kTwice;  ///< of RMSNorm
  double rope_theta = 10000.0;
  double window_rope_theta = 0.0;  ///< of blocks with the window; 0: rope_theta
  RopeScalingOptions rope_scaling;
  double partial_rotary_factor = 1.0;      ///< share of each head that rotary positions turn
  std::int64_t window = 0;                 ///< a token sees itself and window - 1 tokens before it; 0: all
  std::int64_t window_from_layer = 0;      ///< first block with the window
  std::int64_t full_attention_every = 0;   ///< every so-many-th block is without the window; 0: none
  std::int64_t no_rope_every = 0;          ///< every so-many-th block is without rotary positions; 0: none
  double embedding_multiplier = 1.0;       ///< factor on embeddings
  double residual_multiplier = 1.0;        ///< factor on what a half of a block adds to the residual stream
  double attention_multiplier = 0.0;       ///< factor on products of queries and keys; 0: 1 / sqrt(head size)
  std::int64_t query_pre_attn_scalar = 0;  ///< in place of the head size in attention_multiplier; 0: that
  double logits_scaling = 1.0;             ///< divisor of logits
  bool use_parallel_residual = true;       ///< attention and feed-forward of a block have one input
  HiddenAct hidden_act = HiddenAct::kGelu;
  bool tie_embeddings = false;  ///< the head shares the embedding's weight
  double init_std = 0.02;       ///< standard deviation of the initial weights
  double dropout = 0.0;         ///< dropout probability in training
  // t5
  std::int64_t decoder_layers = 0;  ///< 0: as many as layers
  std::int64_t head_size = 0;       ///< elements of an attention head, not gpt2's; 0: hidden_size / heads
  FeedForward feed_forward = FeedForward::kRelu;
  std::int64_t relative_buckets = 32;        ///< of the relative position bias
  std::int64_t relative_max_distance = 128;  ///< distances from here on share a bucket
  // vit, deepvit, cnn
  std::int64_t image_size = 224;  ///< height and width in pixels
  std::int64_t patch_size = 16;
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
};

/// Recipe section `lora` (Hu et al., LoRA). An adapter adds scale * B(A(dropout(x))) to the product of a
/// block's matrix with x. Only adapters and the parts named in also_train are trained.
struct LoraOptions {
  std::int64_t rank = 0;    ///< rows of every A, columns of every B; 0: no adapters, everything is trained
  double alpha = 16.0;      ///< scale = alpha / rank
  bool use_rslora = false;  ///< scale = alpha / sqrt(rank)
  double dropout = 0.0;     ///< dropout probability of an adapter's input in training
  std::vector<std::string> modules;     ///< patterns of the matrices with an adapter; none: all of the blocks
  std::vector<std::string> also_train;  ///< patterns of modules that are trained whole
};

/// Elements of an attention head.
[[nodiscard]] constexpr std::int64_t head_size(const ModelOptions& model) {
  return model.head_size > 0 ? model.head_size : model.hidden_size / model.heads;
}
/// Elements of an attention head that rotary positions turn: the first.
[[nodiscard]] constexpr std::int64_t rotary_size(const ModelOptions& model) {
  return static_cast<std::int64_t>(static_cast<double>(head_size(model)) * model.partial_rotary_factor);
}
/// Sequences up to this length rotate by the frequencies as they are.
[[nodiscard]] constexpr std::int64_t original_positions(const ModelOptions& model) {
  return model.rope_scaling.original_positions > 0 ? model.rope_scaling.original_positions
                                                   : model.max_positions;
}
/// Longest sequence that the model takes. The frequencies of RopeKind::kDynamic and kLongRope beyond the
/// original positions depend on the longest sequence of a batch.
[[nodiscard]] constexpr std::int64_t longest_sequence(const ModelOptions& model) {
  const RopeKind kind = model.rope_scaling.kind;
  const bool dynamic = kind == RopeKind::kDynamic || kind == RopeKind::kLongRope;
  return dynamic ? std::min(model.max_positions, original_positions(model)) : model.max_positions;
}
/// Blocks of a t5's decoder.
[[nodiscard]] constexpr std::int64_t decoder_layers(const ModelOptions& model) {
  return model.decoder_layers > 0 ? model.decoder_layers : model.layers;
}

}  // namespace echelon
