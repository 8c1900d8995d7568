#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"

namespace echelon::families {
namespace {

bool is_gated(const ModelConfig& config) {
  const std::string feed_forward = config.text_or("feed_forward_proj", "relu");
  const bool gated = feed_forward == "gated-gelu";
  if (!gated && feed_forward != "relu")
    config.differs(str("'feed_forward_proj' is '", printable(feed_forward), '\''));
  // Both follow from it, but values in the file take precedence.
  const char* activation = gated ? "gelu_new" : "relu";
  config.require_text("dense_act_fn", activation, activation);
  config.require_flag("is_gated_act", gated);
  return gated;
}

/// Determines the head. In files of transformers 4, tie_word_embeddings says both whether the head is the
/// embedding and whether the decoder's outputs are scaled for it. transformers 5 always writes true,
/// together with scale_decoder_outputs. The trainer's tied head is scaled. An unscaled one becomes a
/// separate head, initialized with the embedding if the files have no other weights; both versions then
/// compute the same.
struct Head {
  bool tied = true;
  bool copied = false;  ///< starts as the embedding
};
Head head_of(const ModelConfig& config, const HasTensor& has_tensor) {
  const bool tied = config.flag_or("tie_word_embeddings", true);
  const bool scaled = config.flag_or("scale_decoder_outputs", tied);
  if (!tied && scaled) config.differs("'scale_decoder_outputs' is true without 'tie_word_embeddings'");
  return {.tied = tied && scaled, .copied = tied && !scaled && !has_tensor("lm_head.weight")};
}

/// As a recipe wants them.
void check_buckets(const ModelConfig& config, std::int64_t buckets, std::int64_t distance) {
  if (!config.is_import()) return;
  if (buckets < 4 || buckets % 2 != 0)
    config.fail(
        str("'relative_attention_num_buckets' is ", buckets, "; expected an even number of at least 4"));
  if (distance <= buckets / 2) {
    config.fail(str("'relative_attention_max_distance' is ", distance,
                    "; expected more than half of relative_attention_num_buckets (", buckets, ")"));
  }
}

}  // namespace

void describe_t5(ModelConfig& config, const HasTensor& has_tensor, ModelDescription& model) {
  config.take_other_name("d_model", "hidden_size");
  config.take_other_name("num_heads", "num_attention_heads");
  config.take_other_name("num_layers", "num_hidden_layers");
  config.take_other_name("d_kv", "head_dim");
  ModelOptions options{.kind = ModelKind::kT5,
                       .vocab_size = config.size_or("vocab_size", 32128, model_ranges::kVocabSize),
                       .hidden_size = config.size_or("d_model", 512, model_ranges::kHiddenSize),
                       .intermediate_size = config.size_or("d_ff", 2048, model_ranges::kIntermediateSize),
                       .layers = config.size_or("num_layers", 6, model_ranges::kLayers),
                       .heads = config.size_or("num_heads", 8, model_ranges::kHeads),
                       .head_size = config.size_or("d_kv", 64, model_ranges::kHeadSize),
                       .feed_forward = is_gated(config) ? FeedForward::kGatedGelu : FeedForward::kRelu,
                       .relative_buckets = config.size_or("relative_attention_num_buckets", 32,
                                                          model_ranges::kRelativeBuckets),
                       .relative_max_distance = config.size_or("relative_attention_max_distance", 128,
                                                               model_ranges::kRelativeMaxDistance)};
  options.decoder_layers = config.size_or("num_decoder_layers", options.layers, model_ranges::kDecoderLayers);
  const Head head = head_of(config, has_tensor);
  options.tie_embeddings = head.tied;
  config.require_flag("is_encoder_decoder", true);
  for (const char* flag : {"is_decoder", "tie_encoder_decoder", "add_cross_attention"})
    config.require_flag(flag, false);
  config.require_number("decoder_start_token_id", 0);  // transformers would take another one from the file
  check_buckets(config, options.relative_buckets, options.relative_max_distance);
  options.dropout = config.real_or("dropout_rate", 0.1, model_ranges::kDropout);  // one rate for all
  options.norm_eps = config.real_or("layer_norm_epsilon", 1e-6, model_ranges::kNormEps);

  model.attention_dropout = options.dropout;
  model.list_tensors(options);
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    model.tied.push_back({name, "shared.weight"});
  if (head.tied) model.tied.push_back({"lm_head.weight", "shared.weight"});
  if (head.copied) model.copies["lm_head.weight"] = "shared.weight";
  model.config_members = {{"tie_word_embeddings", head.tied}};
  // The published T5 1.0 files have a table that no version of the model uses.
  model.ignored = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
  config.check_all_known("n_positions");  // unused
}

}  // namespace echelon::families
