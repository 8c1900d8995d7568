#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"
#include "families/rope_config.h"

namespace echelon::families {
namespace {

constexpr StatedSize kNeoXSizes[]{
    {"vocab_size", &ModelOptions::vocab_size, model_ranges::kVocabSize, 50432},
    {"hidden_size", &ModelOptions::hidden_size, model_ranges::kHiddenSize, 6144},
    {"intermediate_size", &ModelOptions::intermediate_size, model_ranges::kIntermediateSize, 24576},
    {"num_hidden_layers", &ModelOptions::layers, model_ranges::kLayers, 44},
    {"num_attention_heads", &ModelOptions::heads, model_ranges::kHeads, 64},
    {"max_position_embeddings", &ModelOptions::max_positions, model_ranges::kMaxPositions, 2048},
};

ModelOptions read_options(const ModelConfig& config) {
  ModelOptions model{.kind = ModelKind::kGptNeoX};
  config.read(kNeoXSizes, model);
  model.norm_eps = config.real_or("layer_norm_eps", 1e-5, model_ranges::kNormEps);
  model.dropout = config.real_or("hidden_dropout", 0.0, model_ranges::kDropout);
  const std::string activation = config.text_or("hidden_act", "gelu");
  if (const auto known = choice_of<HiddenAct>(activation))
    model.hidden_act = *known;
  else
    config.differs(str("'hidden_act' is '", printable(activation), '\''));
  model.use_parallel_residual = config.flag_or("use_parallel_residual", true);
  model.tie_embeddings = config.flag_or("tie_word_embeddings", false);
  if (model.hidden_size % model.heads != 0)
    config.fail(str("num_attention_heads ", model.heads, " does not divide hidden_size ", model.hidden_size));
  return model;
}

}  // namespace

void describe_gpt_neox(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& description) {
  config.require_flag("attention_bias", true);
  description.attention_dropout = config.real_or("attention_dropout", 0, model_ranges::kDropout);
  // transformers reads these names inside rope_parameters only.
  if (!config.has("rotary_pct")) config.require_number("partial_rotary_factor", 0.25);
  if (!config.has("rotary_emb_base")) config.require_number("rope_theta", 10000);
  config.take_other_name("partial_rotary_factor", "rotary_pct");
  config.take_other_name("rope_theta", "rotary_emb_base");
  ModelOptions model = read_options(config);
  description.config_members = read_rope(config, model, {.partial = 0.25});
  if (model.rope_scaling.kind != RopeKind::kDefault) config.differs("stretched rotary positions of gpt_neox");
  require_pairs(config, model);

  description.optional_prefix = "gpt_neox.";
  description.head = "embed_out.weight";
  description.list_tensors(model);
  if (model.tie_embeddings) description.tied.push_back({description.head, "gpt_neox.embed_in.weight"});
  description.config_members["rotary_emb_base"] = model.rope_theta;
  description.config_members["rotary_pct"] = model.partial_rotary_factor;
  description.ignored = {".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"};
  // transformers does not read the last two, which GPT-NeoX-20B has.
  config.check_all_known("classifier_dropout attention_probs_dropout_prob hidden_dropout_prob");
}

checkpoint::Json gpt_neox_config(const ModelOptions& model) {
  checkpoint::Json config = stated(kNeoXSizes, model);
  config.update({{"architectures", {"GPTNeoXForCausalLM"}},
                 {"layer_norm_eps", model.norm_eps},
                 {"hidden_act", word_of(model.hidden_act)},
                 {"hidden_dropout", model.dropout},
                 {"attention_dropout", 0.0},
                 {"attention_bias", true},
                 {"use_parallel_residual", model.use_parallel_residual},
                 {"rotary_pct", model.partial_rotary_factor},
                 {"rotary_emb_base", model.rope_theta},
                 {"rope_parameters",
                  {{"rope_type", "default"},
                   {"rope_theta", model.rope_theta},
                   {"partial_rotary_factor", model.partial_rotary_factor}}},
                 {"initializer_range", model.init_std}});
  return config;
}

}  // namespace echelon::families
