#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"

namespace echelon::families {
namespace {

void check_computed(const ModelConfig& config) {
  config.require_text("activation_function", "gelu_new", "gelu_new");
  config.require_flag("scale_attn_weights", true);
  config.require_flag("scale_attn_by_inverse_layer_idx", false);
  config.require_flag("add_cross_attention", false);
  config.require_flag("is_encoder_decoder", false);
}

constexpr StatedSize kGpt2Sizes[]{
    {"n_embd", &ModelOptions::hidden_size, model_ranges::kHiddenSize, 768},
    {"vocab_size", &ModelOptions::vocab_size, model_ranges::kVocabSize, 50257},
    {"n_positions", &ModelOptions::max_positions, model_ranges::kMaxPositions, 1024},
    {"n_layer", &ModelOptions::layers, model_ranges::kLayers, 12},
    {"n_head", &ModelOptions::heads, model_ranges::kHeads, 12},
};

constexpr double kDefaultDropout = 0.1;

/// One rate after the embeddings and in the blocks.
double dropout_of(const ModelConfig& config) {
  const double dropout = config.real_or("resid_pdrop", kDefaultDropout, model_ranges::kDropout);
  const double embedding = config.real_or("embd_pdrop", kDefaultDropout, model_ranges::kDropout);
  if (config.is_import() && embedding != dropout)
    config.differs(str("'embd_pdrop' is ", embedding, " and 'resid_pdrop' ", dropout));
  return dropout;
}

/// Members about the usual head, heads for other tasks, attention's order of operations, and those of GPT-2's
/// first release, which transformers does not read.
constexpr std::string_view kNeutral =
    "n_ctx n_special predict_special_tokens reorder_and_upcast_attn summary_activation summary_first_dropout "
    "summary_proj_to_labels summary_type summary_use_proj";

}  // namespace

void describe_gpt2(ModelConfig& config, const HasTensor& /*has_tensor*/, ModelDescription& model) {
  config.take_other_name("n_embd", "hidden_size");
  config.take_other_name("n_positions", "max_position_embeddings");
  config.take_other_name("n_head", "num_attention_heads");
  config.take_other_name("n_layer", "num_hidden_layers");
  ModelOptions options{.kind = ModelKind::kGpt2};
  config.read(kGpt2Sizes, options);
  options.intermediate_size =
      config.size_or("n_inner", 4 * options.hidden_size, model_ranges::kIntermediateSize);
  options.tie_embeddings = config.flag_or("tie_word_embeddings", true);
  if (options.hidden_size % options.heads != 0)
    config.fail(str("n_head ", options.heads, " does not divide n_embd ", options.hidden_size));
  check_computed(config);

  model.attention_dropout = config.real_or("attn_pdrop", kDefaultDropout, model_ranges::kDropout);
  options.norm_eps = config.real_or("layer_norm_epsilon", 1e-5, model_ranges::kNormEps);
  options.dropout = dropout_of(config);
  model.optional_prefix = "transformer.";
  model.list_tensors(options);
  if (options.tie_embeddings) model.tied.push_back({"lm_head.weight", "transformer.wte.weight"});
  model.ignored = {".attn.bias", ".attn.masked_bias"};  // the causal mask
  config.check_all_known(kNeutral);
}

checkpoint::Json gpt2_config(const ModelOptions& model) {
  checkpoint::Json config = stated(kGpt2Sizes, model);
  config.update({{"architectures", {"GPT2LMHeadModel"}},
                 {"n_ctx", model.max_positions},
                 {"n_inner", model.intermediate_size},
                 {"activation_function", "gelu_new"},
                 {"layer_norm_epsilon", model.norm_eps},
                 {"initializer_range", model.init_std},
                 {"embd_pdrop", model.dropout},
                 {"resid_pdrop", model.dropout},
                 {"attn_pdrop", 0.0}});
  return config;
}

}  // namespace echelon::families
