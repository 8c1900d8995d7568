#include <algorithm>

#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"
#include "families/rope_config.h"
#include "shapes/llama_family.h"

namespace echelon::families {
namespace {

using checkpoint::Json;

constexpr std::int64_t kLlamaPositions = 2048;
constexpr const char* kOldLength = "max_sequence_length";

/// Where a family's config differs from Llama's in transformers; numbers are its defaults.
struct LlamaLike {
  ModelKind kind;
  std::int64_t max_positions = kLlamaPositions;
  std::int64_t head_size = 0;    ///< 0: hidden_size / heads
  bool states_kv_heads = false;  ///< without num_key_value_heads there are not as many as heads
  double norm_eps = 1e-6;
  bool tied = false;
  RopeSpelling rope = {};
  std::int64_t window = 4096;   ///< 0: none
  std::int64_t full_every = 4;  ///< without layer_types
};

constexpr StatedSize kLlamaSizes[]{
    {"hidden_size", &ModelOptions::hidden_size, model_ranges::kHiddenSize},
    {"intermediate_size", &ModelOptions::intermediate_size, model_ranges::kIntermediateSize},
    {"vocab_size", &ModelOptions::vocab_size, model_ranges::kVocabSize},
    {"num_hidden_layers", &ModelOptions::layers, model_ranges::kLayers},
    {"num_attention_heads", &ModelOptions::heads, model_ranges::kHeads},
};

constexpr std::int64_t kMaxWindowLayers = 28;
constexpr std::int64_t kNoRopeEvery = 4;

const std::vector<LlamaLike>& llama_likes() {
  static const std::vector<LlamaLike> rows{
      {.kind = ModelKind::kLlama},
      {.kind = ModelKind::kMistral, .max_positions = 131'072, .states_kv_heads = true},
      {.kind = ModelKind::kQwen2, .max_positions = 32'768, .states_kv_heads = true},
      {.kind = ModelKind::kQwen3, .max_positions = 32'768, .head_size = 128, .states_kv_heads = true},
      {.kind = ModelKind::kOlmo2, .norm_eps = 1e-5},
      {.kind = ModelKind::kOlmo3, .norm_eps = 1e-5, .rope = {.theta = {}, .by_layer_type = true}},
      {.kind = ModelKind::kSmolLm3,
       .max_positions = 32'768,
       .states_kv_heads = true,
       .tied = true,
       .rope = {.theta = 2e6}},
      {.kind = ModelKind::kGranite},
      {.kind = ModelKind::kPhi3,
       .max_positions = 4096,
       .norm_eps = 1e-5,
       .rope = {.partial = 1.0, .as_phi3 = true},
       .window = 0},
      {.kind = ModelKind::kGemma3Text,
       .max_positions = 131'072,
       .head_size = 256,
       .states_kv_heads = true,
       .tied = true,
       .rope = {.theta = 1e6, .by_layer_type = true, .window_theta = 1e4},
       .full_every = 6},
  };
  return rows;
}

std::int64_t head_size_of(const ModelConfig& config, const LlamaLike& family, const ModelOptions& model) {
  if (config.has("head_dim") || family.head_size > 0)
    return config.size_or("head_dim", family.head_size, model_ranges::kHeadSize);
  if (model.hidden_size % model.heads != 0)
    config.fail(str("the head counts do not divide: hidden_size ", model.hidden_size,
                    ", num_attention_heads ", model.heads, ", and no 'head_dim'"));
  return model.hidden_size / model.heads;
}

Json layer_types(const ModelOptions& model) {
  Json types = Json::array();
  for (std::int64_t block = 0; block < model.layers; ++block)
    types.push_back(has_window(model, block) ? "sliding_attention" : "full_attention");
  return types;
}

/// Refuses kinds of layers other than what the window, its first block and the period say.
void check_layer_types(const ModelConfig& config, const ModelOptions& model, const char* said_by) {
  if (!config.has("layer_types")) return;
  if (config["layer_types"] != layer_types(model)) config.differs(str("'layer_types' is not what ", said_by));
}

/// Returns the number of the first element that is `value`, counted from 1; 0: there is none, or no list.
std::int64_t first_of(const Json& list, const Json& value) {
  const auto found = std::ranges::find(list, value);
  return found == list.end() ? 0 : found - list.begin() + 1;
}

void read_layer_types(const ModelConfig& config, const LlamaLike& family, ModelOptions& model) {
  const Json kinds = config.has("layer_types") ? config["layer_types"] : Json();
  std::int64_t every = family.full_every;
  for (const char* name : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    if (model.kind == ModelKind::kGemma3Text) every = config.size_or(name, every, model_ranges::kLayers);
  }
  if (kinds.is_array() && first_of(kinds, "sliding_attention") == 0) {
    (void)config.has("sliding_window");
  } else {
    model.window = config.size_or("sliding_window", family.window, model_ranges::kWindow);
    model.full_attention_every = kinds.is_array() ? first_of(kinds, "full_attention") : every;
  }
  check_layer_types(config, model, "a block of full attention after every so many others gives");
}

void read_window(const ModelConfig& config, const LlamaLike& family, ModelOptions& model) {
  const Windows windows = find_llama_family(model.kind)->windows;
  if (windows == Windows::kNone) return;
  if (windows == Windows::kLayerTypes) return read_layer_types(config, family, model);
  const bool chooses = windows == Windows::kFromLayer;
  const std::int64_t window = config.size_or("sliding_window", family.window, model_ranges::kWindow);
  const bool used =
      (!chooses || config.flag_or("use_sliding_window", false)) && !config.is_null("sliding_window");
  const std::int64_t first =
      chooses ? config.zero_or_size("max_window_layers", kMaxWindowLayers, model_ranges::kDecoderLayers) : 0;
  if (used && first < model.layers) {
    model.window = window;
    model.window_from_layer = first;
  }
  check_layer_types(config, model, "'sliding_window' and 'max_window_layers' say");
}

/// A 1 for each block with rotary positions, a 0 for each without.
Json rope_layers(const ModelOptions& model) {
  Json rotated = Json::array();
  for (std::int64_t block = 0; block < model.layers; ++block)
    rotated.push_back(has_rope(model, block) ? 1 : 0);
  return rotated;
}

void read_smollm3(const ModelConfig& config, ModelOptions& model) {
  config.require_flag("use_sliding_window", false);
  for (const char* unused : {"sliding_window", "max_window_layers"}) (void)config.has(unused);
  check_layer_types(config, model, "'use_sliding_window' says");
  model.no_rope_every = config.size_or("no_rope_layer_interval", kNoRopeEvery, model_ranges::kLayers);
  if (config.has("no_rope_layers")) {
    const Json& rotated = config["no_rope_layers"];
    model.no_rope_every = first_of(rotated, 0);
    if (rotated != rope_layers(model))
      config.differs("'no_rope_layers' is not a 0 after every so many 1, one number for each block");
  }
  if (model.no_rope_every == 1) config.differs("no block has rotary positions");
}

/// What only one family has.
void read_own(const ModelConfig& config, ModelOptions& model) {
  if (model.kind == ModelKind::kGemma3Text) {
    model.query_pre_attn_scalar = config.size_or("query_pre_attn_scalar", 256, model_ranges::kHeadSize);
    config.require_text("hidden_activation", "gelu_pytorch_tanh", "gelu_pytorch_tanh");
  } else {
    config.require_text("hidden_act", "silu", "silu");
  }
  if (model.kind == ModelKind::kPhi3) {
    for (const char* dropout : {"resid_pdrop", "embd_pdrop"}) config.require_number(dropout, 0);
    // Phi-4-mini states these, and transformers does not know them.
    for (const char* one : {"full_attn_mod", "interpolate_factor"}) config.require_number(one, 1);
    config.require_flag("lm_head_bias", false);
  }
  if (model.kind == ModelKind::kSmolLm3) read_smollm3(config, model);
  if (model.kind == ModelKind::kGranite) {
    model.embedding_multiplier = config.real_or("embedding_multiplier", 1.0, model_ranges::kMultiplier);
    model.residual_multiplier = config.real_or("residual_multiplier", 1.0, model_ranges::kMultiplier);
    model.attention_multiplier = config.real_or("attention_multiplier", 1.0, model_ranges::kMultiplier);
    model.logits_scaling = config.real_or("logits_scaling", 1.0, model_ranges::kMultiplier);
  }
}

ModelOptions read_sizes(const ModelConfig& config, const LlamaLike& family) {
  ModelOptions model{.kind = family.kind};
  config.read(kLlamaSizes, model);
  model.kv_heads = family.states_kv_heads
                       ? config.size("num_key_value_heads", model_ranges::kHeads)
                       : config.size_or("num_key_value_heads", model.heads, model_ranges::kHeads);
  model.tie_embeddings = config.flag_or("tie_word_embeddings", family.tied);
  model.head_size = head_size_of(config, family, model);
  model.max_positions =
      config.size_or("max_position_embeddings", family.max_positions, model_ranges::kMaxPositions);
  if (model.heads % model.kv_heads != 0)
    config.fail(str("the head counts do not divide: hidden_size ", model.hidden_size,
                    ", num_attention_heads ", model.heads, ", num_key_value_heads ", model.kv_heads));
  return model;
}

const LlamaLike& llama_like(std::string_view model_type) {
  return *std::ranges::find_if(llama_likes(),
                               [&](const LlamaLike& row) { return word_of(row.kind) == model_type; });
}

void state_window(Json& config, const ModelOptions& model) {
  const Windows windows = find_llama_family(model.kind)->windows;
  if (windows == Windows::kNone) return;
  config["sliding_window"] = model.window > 0 ? Json(model.window) : Json();
  if (windows == Windows::kLayerTypes) {
    config["layer_types"] = layer_types(model);
    // transformers 4 makes the mask of a window that no layer has.
    if (model.window == 0) config["sliding_window"] = model.max_positions;
  } else if (windows == Windows::kFromLayer) {
    config["use_sliding_window"] = model.window > 0;
    config["max_window_layers"] = model.window > 0 ? model.window_from_layer : model.layers;
  }
}

/// Members that only some families have.
void state_own(Json& config, const ModelOptions& model) {
  if (model.kind == ModelKind::kLlama || model.kind == ModelKind::kSmolLm3 ||
      model.kind == ModelKind::kGranite)
    config["mlp_bias"] = false;
  if (model.kind == ModelKind::kSmolLm3) {
    config["no_rope_layers"] = rope_layers(model);
    if (model.no_rope_every > 0) config["no_rope_layer_interval"] = model.no_rope_every;
  }
  if (model.kind == ModelKind::kGranite) {
    config["embedding_multiplier"] = model.embedding_multiplier;
    config["residual_multiplier"] = model.residual_multiplier;
    config["attention_multiplier"] = attention_scale(model);
    config["logits_scaling"] = model.logits_scaling;
  }
  if (model.kind == ModelKind::kGemma3Text) {
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["query_pre_attn_scalar"] =
        model.query_pre_attn_scalar > 0 ? model.query_pre_attn_scalar : head_size(model);
    config.erase("hidden_act");
  }
}

}  // namespace

void describe_llama(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& description) {
  const LlamaLike& family = llama_like(config.text_or("model_type", ""));
  ModelOptions model = read_sizes(config, family);
  for (const char* flag : {"attention_bias", "mlp_bias", "add_cross_attention", "is_encoder_decoder"})
    config.require_flag(flag, false);
  description.attention_dropout = config.real_or("attention_dropout", 0, model_ranges::kDropout);
  // Llama 1 states this. Its versions for longer texts leave it as it was, and transformers ignores it.
  if (!config.has(kOldLength) || config[kOldLength] != kLlamaPositions)
    config.require_number(kOldLength, static_cast<double>(model.max_positions));
  model.norm_eps = config.real_or("rms_norm_eps", family.norm_eps, model_ranges::kNormEps);
  read_window(config, family, model);
  read_own(config, model);
  description.config_members = read_rope(config, model, family.rope);
  const RopeScalingOptions& scaling = model.rope_scaling;
  if (scaling.kind != RopeKind::kDefault && !find_llama_family(model.kind)->scales_rope)
    config.differs(str("stretched rotary positions of ", word_of(model.kind)));
  require_pairs(config, model);
  const auto frequencies = static_cast<std::size_t>(rotary_size(model) / 2);
  for (const std::vector<double>* factors : {&scaling.short_factor, &scaling.long_factor}) {
    if (scaling.kind == RopeKind::kLongRope && factors->size() != frequencies)
      config.fail(str("a list of factors of rotary positions has ", factors->size(), " numbers; expected ",
                      frequencies));
  }

  description.list_tensors(model);
  if (model.tie_embeddings) description.tied.push_back({"lm_head.weight", "model.embed_tokens.weight"});
  description.optional_prefix = "model.";
  description.ignored = {"rotary_emb.inv_freq"};  // of each layer, or of the model
  // auto_map: code for versions of transformers without the family.
  config.check_all_known(model.kind == ModelKind::kPhi3 ? "auto_map" : "");
}

Json llama_config(const ModelOptions& model) {
  Json config = stated(kLlamaSizes, model);
  config.update({{"architectures", {find_llama_family(model.kind)->architecture}},
                 {"num_key_value_heads", model.kv_heads},
                 {"head_dim", head_size(model)},
                 {"max_position_embeddings", model.max_positions},
                 {"rms_norm_eps", model.norm_eps},
                 {"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"initializer_range", model.init_std},
                 {"pad_token_id", nullptr}});
  config.update(Json(rope_members(model, llama_like(word_of(model.kind)).rope)));
  state_window(config, model);
  state_own(config, model);
  return config;
}

}  // namespace echelon::families
