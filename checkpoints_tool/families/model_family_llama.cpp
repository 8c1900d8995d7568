#include "base/options/model_ranges.h"
#include "base/str.h"
#include "checkpoints_tool/families/model_family.h"

namespace echelon::tool {
namespace {

using checkpoint::Json;

constexpr double kRopeTheta = 10000.0;  // where nothing is stated

/// Of rope_scaling or rope_parameters, checked to ask for plain rotary positions.
void check_rope(const ModelConfig& config, const char* key, const Json& rope) {
  if (!rope.is_object()) config.fail(str("'", key, "' must be an object"));
  for (const auto& [name, value] : rope.items()) {
    if ((name == "rope_type" || name == "type") && value != "default")
      config.differs(str("'", key, "' requires rotary positions of type ", printable(value.dump())));
    if (name == "partial_rotary_factor" && value != 1.0)
      config.differs(str("'", key, "' rotates only a part of each head"));
  }
}

/// transformers follows rope_scaling, with a default for a theta that it does not state, and versions before
/// 5 do not know rope_parameters.
void check_one_theta(const ModelConfig& config) {
  if (!config.is_import() || !config.has("rope_scaling") || !config.has("rope_parameters")) return;
  const Json& scaling = config["rope_scaling"];
  const Json& parameters = config["rope_parameters"];
  if (!scaling.is_object() || !parameters.is_object() || config.has("rope_theta")) return;
  const Json theta = parameters.value("rope_theta", Json(kRopeTheta));
  if (scaling.value("rope_theta", Json(kRopeTheta)) == theta) return;
  config.fail(str("'rope_theta' is ", printable(theta.dump()),
                  " in 'rope_parameters', but by 'rope_scaling' ", number_text(kRopeTheta),
                  "; remove the wrong one of the two"));
}

double llama_rope_theta(ModelConfig& config) {
  check_one_theta(config);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const Json& rope = config[key];
    check_rope(config, key, rope);
    if (rope.contains("rope_theta")) config.take_value("rope_theta", rope["rope_theta"], key);
  }
  return config.real_or("rope_theta", kRopeTheta, model_ranges::kRopeTheta);
}

}  // namespace

void describe_llama(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& model) {
  const std::int64_t hidden = config.size("hidden_size", model_ranges::kHiddenSize);
  const std::int64_t inner = config.size("intermediate_size", model_ranges::kIntermediateSize);
  const std::int64_t vocab = config.size("vocab_size", model_ranges::kVocabSize);
  const std::int64_t layers = config.size("num_hidden_layers", model_ranges::kLayers);
  const std::int64_t heads = config.size("num_attention_heads", model_ranges::kHeads);
  const std::int64_t kv_heads = config.size_or("num_key_value_heads", heads, model_ranges::kHeads);
  const bool tie = config.flag_or("tie_word_embeddings", false);
  if (hidden % heads != 0 || heads % kv_heads != 0)
    config.fail(str("the head counts do not divide: hidden_size ", hidden, ", num_attention_heads ", heads,
                    ", num_key_value_heads ", kv_heads));
  const std::int64_t head_dim = hidden / heads;
  if (config.is_import() && head_dim % 2 != 0)
    config.fail(
        str("hidden_size / num_attention_heads is ", head_dim, "; rotary positions need an even head size"));
  if (config.size_or("head_dim", head_dim, model_ranges::kHeadSize) != head_dim)
    config.differs(str("'head_dim' is not hidden_size / num_attention_heads (", head_dim, ")"));
  config.require_text("hidden_act", "silu", "silu");
  for (const char* flag : {"attention_bias", "mlp_bias", "add_cross_attention", "is_encoder_decoder"})
    config.require_flag(flag, false);
  config.require_number("attention_dropout", 0);
  config.require_number("partial_rotary_factor", 1);
  const double theta = llama_rope_theta(config);

  model.data_kind = "synthetic_tokens";
  model.max_positions = config.size_or("max_position_embeddings", 2048, model_ranges::kMaxPositions);
  model.list_tensors({.kind = ModelKind::kLlama,
                      .vocab_size = vocab,
                      .hidden_size = hidden,
                      .intermediate_size = inner,
                      .layers = layers,
                      .heads = heads,
                      .kv_heads = kv_heads,
                      .tie_embeddings = tie});
  if (tie) model.tied.push_back({"lm_head.weight", "model.embed_tokens.weight"});
  // transformers 4 reads the first, 5 writes the second only.
  model.config_members = {{"rope_theta", theta},
                          {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", theta}}}};
  model.optional_prefix = "model.";
  model.ignored = {"rotary_emb.inv_freq"};  // of each layer, or of the model
  model.recipe =
      str("model:\n  kind: llama\n  vocab_size: ", vocab, "\n  hidden_size: ", hidden,
          "\n  intermediate_size: ", inner, "\n  layers: ", layers, "\n  heads: ", heads,
          "\n  kv_heads: ", kv_heads, "\n  max_positions: ", model.max_positions,
          "\n  norm_eps: ", number_text(config.real_or("rms_norm_eps", 1e-6, model_ranges::kNormEps)),
          "\n  rope_theta: ", number_text(theta), "\n  tie_embeddings: ", tie ? "true" : "false", '\n');
  config.check_all_known({});
}

}  // namespace echelon::tool
