#include "base/options/model_ranges.h"
#include "base/str.h"
#include "families/model_family.h"

namespace echelon::families {
namespace {

constexpr StatedSize kT5Sizes[]{
    {"vocab_size", &ModelOptions::vocab_size, model_ranges::kVocabSize, 32128},
    {"d_model", &ModelOptions::hidden_size, model_ranges::kHiddenSize, 512},
    {"d_ff", &ModelOptions::intermediate_size, model_ranges::kIntermediateSize, 2048},
    {"num_layers", &ModelOptions::layers, model_ranges::kLayers, 6},
    {"num_heads", &ModelOptions::heads, model_ranges::kHeads, 8},
    {"d_kv", &ModelOptions::head_size, model_ranges::kHeadSize, 64},
    {"relative_attention_num_buckets", &ModelOptions::relative_buckets, model_ranges::kRelativeBuckets, 32},
    {"relative_attention_max_distance", &ModelOptions::relative_max_distance,
     model_ranges::kRelativeMaxDistance, 128},
};

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
                       .feed_forward = is_gated(config) ? FeedForward::kGatedGelu : FeedForward::kRelu};
  config.read(kT5Sizes, options);
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

checkpoint::Json t5_config(const ModelOptions& model) {
  const bool gated = model.feed_forward == FeedForward::kGatedGelu;
  checkpoint::Json config = stated(kT5Sizes, model);
  config.update({{"architectures", {"T5ForConditionalGeneration"}},
                 {"is_encoder_decoder", true},
                 {"d_kv", head_size(model)},
                 {"num_decoder_layers", decoder_layers(model)},
                 {"dropout_rate", model.dropout},
                 {"layer_norm_epsilon", model.norm_eps},
                 {"initializer_factor", 1.0},
                 {"feed_forward_proj", gated ? "gated-gelu" : "relu"},
                 {"dense_act_fn", gated ? "gelu_new" : "relu"},
                 {"is_gated_act", gated},
                 {"decoder_start_token_id", 0},
                 {"pad_token_id", 0}});
  return config;
}

}  // namespace echelon::families
