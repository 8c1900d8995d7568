#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"
#include "families/rope_config.h"

namespace echelon::families {
namespace {

using checkpoint::Json;

/// Where a family's config differs from Llama's in transformers; numbers are its defaults.
struct LlamaLike {
  ModelKind kind;
  std::int64_t max_positions;
  std::int64_t head_size = 0;    ///< 0: hidden_size / heads
  bool states_kv_heads = false;  ///< without num_key_value_heads there are not as many as heads
  bool has_window = false;       ///< sliding_window
  bool chooses_blocks = false;   ///< use_sliding_window, max_window_layers
};

constexpr std::int64_t kWindow = 4096;
constexpr std::int64_t kMaxWindowLayers = 28;

std::int64_t head_size_of(const ModelConfig& config, const LlamaLike& family, const ModelOptions& model) {
  if (config.has("head_dim") || family.head_size > 0)
    return config.size_or("head_dim", family.head_size, model_ranges::kHeadSize);
  if (model.hidden_size % model.heads != 0)
    config.fail(str("the head counts do not divide: hidden_size ", model.hidden_size,
                    ", num_attention_heads ", model.heads, ", and no 'head_dim'"));
  return model.hidden_size / model.heads;
}

/// Refuses kinds of layers other than what the window and its first block say.
void check_layer_types(const ModelConfig& config, const ModelOptions& model) {
  if (!config.has("layer_types")) return;
  Json expected = Json::array();
  for (std::int64_t block = 0; block < model.layers; ++block)
    expected.push_back(model.window > 0 && block >= model.window_from_layer ? "sliding_attention"
                                                                            : "full_attention");
  if (config["layer_types"] != expected)
    config.differs("'layer_types' is not what 'sliding_window' and 'max_window_layers' say");
}

void read_window(const ModelConfig& config, const LlamaLike& family, ModelOptions& model) {
  const std::int64_t window = config.size_or("sliding_window", kWindow, model_ranges::kWindow);
  const bool chosen = !family.chooses_blocks || config.flag_or("use_sliding_window", false);
  const bool used = family.has_window && chosen && !config.is_null("sliding_window");
  const std::int64_t first =
      family.chooses_blocks
          ? config.zero_or_size("max_window_layers", kMaxWindowLayers, model_ranges::kDecoderLayers)
          : 0;
  if (used && first < model.layers) {
    model.window = window;
    model.window_from_layer = first;
  }
  check_layer_types(config, model);
}

ModelOptions read_sizes(const ModelConfig& config, const LlamaLike& family) {
  ModelOptions model{.kind = family.kind};
  model.hidden_size = config.size("hidden_size", model_ranges::kHiddenSize);
  model.intermediate_size = config.size("intermediate_size", model_ranges::kIntermediateSize);
  model.vocab_size = config.size("vocab_size", model_ranges::kVocabSize);
  model.layers = config.size("num_hidden_layers", model_ranges::kLayers);
  model.heads = config.size("num_attention_heads", model_ranges::kHeads);
  model.kv_heads = family.states_kv_heads
                       ? config.size("num_key_value_heads", model_ranges::kHeads)
                       : config.size_or("num_key_value_heads", model.heads, model_ranges::kHeads);
  model.tie_embeddings = config.flag_or("tie_word_embeddings", false);
  model.head_size = head_size_of(config, family, model);
  model.max_positions =
      config.size_or("max_position_embeddings", family.max_positions, model_ranges::kMaxPositions);
  if (model.heads % model.kv_heads != 0)
    config.fail(str("the head counts do not divide: hidden_size ", model.hidden_size,
                    ", num_attention_heads ", model.heads, ", num_key_value_heads ", model.kv_heads));
  if (config.is_import() && model.head_size % 2 != 0)
    config.fail(str("the head size is ", model.head_size, "; rotary positions need an even one"));
  return model;
}

std::string recipe_of(const ModelConfig& config, const ModelOptions& model, const RopeConfig& rope) {
  std::string text =
      str("model:\n  kind: ", word_of(model.kind), "\n  vocab_size: ", model.vocab_size,
          "\n  hidden_size: ", model.hidden_size, "\n  intermediate_size: ", model.intermediate_size,
          "\n  layers: ", model.layers, "\n  heads: ", model.heads, "\n  kv_heads: ", model.kv_heads);
  if (model.head_size * model.heads != model.hidden_size) text += str("\n  head_size: ", model.head_size);
  text += str("\n  max_positions: ", model.max_positions,
              "\n  norm_eps: ", number_text(config.real_or("rms_norm_eps", 1e-6, model_ranges::kNormEps)),
              '\n', recipe_lines(rope));
  if (model.window > 0) text += str("  window: ", model.window, '\n');
  if (model.window_from_layer > 0) text += str("  window_from_layer: ", model.window_from_layer, '\n');
  return text + str("  tie_embeddings: ", model.tie_embeddings ? "true" : "false", '\n');
}

void describe(const LlamaLike& family, ModelConfig& config, ModelDescription& description) {
  ModelOptions model = read_sizes(config, family);
  config.require_text("hidden_act", "silu", "silu");
  for (const char* flag : {"attention_bias", "mlp_bias", "add_cross_attention", "is_encoder_decoder"})
    config.require_flag(flag, false);
  config.require_number("attention_dropout", 0);
  config.require_number("partial_rotary_factor", 1);
  if (family.has_window) read_window(config, family, model);
  RopeConfig rope = read_rope(config, model.max_positions);

  description.data_kind = "synthetic_tokens";
  description.max_positions = model.max_positions;
  description.list_tensors(model);
  if (model.tie_embeddings) description.tied.push_back({"lm_head.weight", "model.embed_tokens.weight"});
  description.config_members = std::move(rope.members);
  description.optional_prefix = "model.";
  description.ignored = {"rotary_emb.inv_freq"};  // of each layer, or of the model
  description.recipe = recipe_of(config, model, rope);
  config.check_all_known({});
}

}  // namespace

void describe_llama(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& model) {
  describe({.kind = ModelKind::kLlama, .max_positions = 2048}, config, model);
}

void describe_mistral(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& model) {
  describe(
      {.kind = ModelKind::kMistral, .max_positions = 131'072, .states_kv_heads = true, .has_window = true},
      config, model);
}

void describe_qwen2(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& model) {
  describe({.kind = ModelKind::kQwen2,
            .max_positions = 32'768,
            .states_kv_heads = true,
            .has_window = true,
            .chooses_blocks = true},
           config, model);
}

void describe_qwen3(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& model) {
  describe({.kind = ModelKind::kQwen3,
            .max_positions = 32'768,
            .head_size = 128,
            .states_kv_heads = true,
            .has_window = true,
            .chooses_blocks = true},
           config, model);
}

}  // namespace echelon::families
