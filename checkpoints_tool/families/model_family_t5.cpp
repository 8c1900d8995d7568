#include "base/options/model_ranges.h"
#include "base/str.h"
#include "checkpoints_tool/families/model_family.h"

namespace echelon::tool {
namespace {

/// Sizes of an encoder or decoder.
struct Sizes {
  std::int64_t hidden = 0;
  std::int64_t inner = 0;  ///< of the feed-forward block
  std::int64_t heads = 0;
  std::int64_t head = 0;
  std::int64_t buckets = 0;
  bool gated = false;
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
/// separate head, initialised with the embedding if the files have no other weights; both versions then
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

/// The token a decoder starts with; transformers would take another one from the file.
void check_start(const ModelConfig& config) {
  config.require_number("decoder_start_token_id", 0);
}

/// As a recipe wants them.
void check_buckets(const ModelConfig& config, std::int64_t buckets, std::int64_t distance) {
  if (!config.is_import()) return;
  if (buckets < 4 || buckets % 2 != 0)
    config.fail(str("'relative_attention_num_buckets' is ", buckets, "; expected an even number from 4 on"));
  if (distance <= buckets / 2) {
    config.fail(str("'relative_attention_max_distance' is ", distance,
                    "; expected more than half of relative_attention_num_buckets (", buckets, ")"));
  }
}

void add_norm(ModelDescription& model, const std::string& name, const Sizes& sizes) {
  model.add(name + ".weight", {sizes.hidden});
}

/// Layer `number` of block `name` with attention and its norm.
void add_attention(ModelDescription& model, const std::string& block, int number, const char* kind,
                   const Sizes& sizes, bool with_bias) {
  const std::string layer = str(block, "layer.", number, '.');
  const std::int64_t width = sizes.heads * sizes.head;
  for (const char* part : {"q", "k", "v"})
    model.add(str(layer, kind, '.', part, ".weight"), {width, sizes.hidden});
  model.add(str(layer, kind, ".o.weight"), {sizes.hidden, width});
  if (with_bias) model.add(str(layer, kind, ".relative_attention_bias.weight"), {sizes.buckets, sizes.heads});
  add_norm(model, layer + "layer_norm", sizes);
}

void add_feed_forward(ModelDescription& model, const std::string& block, int number, const Sizes& sizes) {
  const std::string layer = str(block, "layer.", number, '.');
  if (sizes.gated) {
    model.add(layer + "DenseReluDense.wi_0.weight", {sizes.inner, sizes.hidden});
    model.add(layer + "DenseReluDense.wi_1.weight", {sizes.inner, sizes.hidden});
  } else {
    model.add(layer + "DenseReluDense.wi.weight", {sizes.inner, sizes.hidden});
  }
  model.add(layer + "DenseReluDense.wo.weight", {sizes.hidden, sizes.inner});
  add_norm(model, layer + "layer_norm", sizes);
}

void add_stack(ModelDescription& model, const std::string& stack, std::int64_t layers, bool decoder,
               const Sizes& sizes) {
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string block = str(stack, ".block.", i, '.');
    int number = 0;
    add_attention(model, block, number++, "SelfAttention", sizes, i == 0);
    if (decoder) add_attention(model, block, number++, "EncDecAttention", sizes, false);
    add_feed_forward(model, block, number, sizes);
  }
  add_norm(model, stack + ".final_layer_norm", sizes);
}

}  // namespace

ModelDescription describe_t5(ModelConfig& config, const HasTensor& has_tensor) {
  config.take_other_name("d_model", "hidden_size");
  config.take_other_name("num_heads", "num_attention_heads");
  config.take_other_name("num_layers", "num_hidden_layers");
  config.take_other_name("d_kv", "head_dim");
  const Sizes sizes{
      .hidden = config.size_or("d_model", 512, model_ranges::kHiddenSize),
      .inner = config.size_or("d_ff", 2048, model_ranges::kIntermediateSize),
      .heads = config.size_or("num_heads", 8, model_ranges::kHeads),
      .head = config.size_or("d_kv", 64, model_ranges::kHeadSize),
      .buckets = config.size_or("relative_attention_num_buckets", 32, model_ranges::kRelativeBuckets),
      .gated = is_gated(config)};
  const std::int64_t vocab = config.size_or("vocab_size", 32128, model_ranges::kVocabSize);
  const std::int64_t layers = config.size_or("num_layers", 6, model_ranges::kLayers);
  const std::int64_t decoder_layers =
      config.size_or("num_decoder_layers", layers, model_ranges::kDecoderLayers);
  const std::int64_t distance =
      config.size_or("relative_attention_max_distance", 128, model_ranges::kRelativeMaxDistance);
  const Head head = head_of(config, has_tensor);
  config.require_flag("is_encoder_decoder", true);
  for (const char* flag : {"is_decoder", "tie_encoder_decoder", "add_cross_attention"})
    config.require_flag(flag, false);
  check_start(config);
  check_buckets(config, sizes.buckets, distance);

  ModelDescription model{.kind = "t5", .data_kind = "synthetic_pairs"};
  model.add("shared.weight", {vocab, sizes.hidden});
  add_stack(model, "encoder", layers, false, sizes);
  add_stack(model, "decoder", decoder_layers, true, sizes);
  for (const char* name : {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    model.tied.push_back({name, "shared.weight"});
  if (head.tied) {
    model.tied.push_back({"lm_head.weight", "shared.weight"});
  } else {
    model.add("lm_head.weight", {vocab, sizes.hidden});
    if (head.copied) model.copies["lm_head.weight"] = "shared.weight";
  }
  model.config_flags = {{"tie_word_embeddings", head.tied}};
  // The published T5 1.0 files have a table that no version of the model uses.
  model.ignored = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
  model.recipe =
      str("model:\n  kind: t5\n  vocab_size: ", vocab, "\n  hidden_size: ", sizes.hidden,
          "\n  intermediate_size: ", sizes.inner, "\n  layers: ", layers, "\n  heads: ", sizes.heads,
          "\n  norm_eps: ", number_text(config.real_or("layer_norm_epsilon", 1e-6, model_ranges::kNormEps)),
          "\n  tie_embeddings: ", head.tied ? "true" : "false",
          "\n  dropout: ", number_text(config.real_or("dropout_rate", 0.1, model_ranges::kDropout)),
          "\n  decoder_layers: ", decoder_layers, "\n  head_size: ", sizes.head,
          "\n  feed_forward: ", sizes.gated ? "gated_gelu" : "relu", "\n  relative_buckets: ", sizes.buckets,
          "\n  relative_max_distance: ", distance, '\n');
  config.check_all_known({"n_positions"});  // unused
  return model;
}

}  // namespace echelon::tool
