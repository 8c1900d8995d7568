#include "base/number.h"
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
  const std::int64_t hidden = config.size_or("n_embd", 768, model_ranges::kHiddenSize);
  const std::int64_t inner = config.size_or("n_inner", 4 * hidden, model_ranges::kIntermediateSize);
  const std::int64_t vocab = config.size_or("vocab_size", 50257, model_ranges::kVocabSize);
  const std::int64_t positions = config.size_or("n_positions", 1024, model_ranges::kMaxPositions);
  const std::int64_t layers = config.size_or("n_layer", 12, model_ranges::kLayers);
  const std::int64_t heads = config.size_or("n_head", 12, model_ranges::kHeads);
  const bool tie = config.flag_or("tie_word_embeddings", true);
  if (hidden % heads != 0) config.fail(str("n_head ", heads, " does not divide n_embd ", hidden));
  check_computed(config);

  model.data_kind = "synthetic_tokens";
  model.max_positions = positions;
  model.attention_dropout = config.real_or("attn_pdrop", kDefaultDropout, model_ranges::kDropout);
  model.optional_prefix = "transformer.";
  model.list_tensors({.kind = ModelKind::kGpt2,
                      .vocab_size = vocab,
                      .hidden_size = hidden,
                      .intermediate_size = inner,
                      .layers = layers,
                      .heads = heads,
                      .max_positions = positions,
                      .tie_embeddings = tie});
  if (tie) model.tied.push_back({"lm_head.weight", "transformer.wte.weight"});
  model.ignored = {".attn.bias", ".attn.masked_bias"};  // the causal mask
  model.recipe = str(
      "model:\n  kind: gpt2\n  vocab_size: ", vocab, "\n  hidden_size: ", hidden,
      "\n  intermediate_size: ", inner, "\n  layers: ", layers, "\n  heads: ", heads,
      "\n  max_positions: ", positions,
      "\n  norm_eps: ", number_text(config.real_or("layer_norm_epsilon", 1e-5, model_ranges::kNormEps)),
      "\n  tie_embeddings: ", tie ? "true" : "false", "\n  dropout: ", number_text(dropout_of(config)), '\n');
  config.check_all_known(kNeutral);
}

}  // namespace echelon::families
