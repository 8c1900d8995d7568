#include "base/options/model_ranges.h"
#include "recipe/keys/keys_table.h"
#include "recipe/model_presets.h"

namespace echelon::recipe {
namespace {

Choices presets() {
  Choices choices{{{"none", ""}}, {}};
  for (const ModelPreset& preset : model_presets()) choices.values.push_back({preset.name, ""});
  return choices;
}

std::vector<Key> common_model_keys() {
  return {
      {ECHELON_KEY(model.kind),
       choices<ModelKind>(
           {{ModelKind::kLlama, "decoder with RMSNorm, rotary positions, grouped-query attention, SwiGLU"},
            {ModelKind::kGpt2, "decoder with LayerNorm, learned positions, GELU, biases"},
            {ModelKind::kT5, "encoder-decoder for pairs of texts, v1.0 and v1.1"},
            {ModelKind::kVit, "Vision Transformer for images"},
            {ModelKind::kDeepVit, "ViT whose attention maps are mixed across heads"},
            {ModelKind::kCnn, "the two convolutions and two linear layers of the MNIST tutorials"}}),
       "", "Architecture."},
      {ECHELON_KEY(model.preset), presets(), "",
       "Published model, listed below, that sets `kind` and every size not given here."},
      {ECHELON_KEY(model.vocab_size), model_ranges::kVocabSize, "tokens",
       "Size of the vocabulary; every token id in the data is below it."},
      {ECHELON_KEY(model.hidden_size), model_ranges::kHiddenSize, "",
       "Width of the residual stream; a multiple of `heads`."},
      {ECHELON_KEY(model.intermediate_size), model_ranges::kIntermediateSize, "",
       "Inner width of the feed-forward block."},
      {ECHELON_KEY(model.layers), model_ranges::kLayers, "", "Number of blocks; of `t5`, of the encoder."},
      {ECHELON_KEY(model.heads), model_ranges::kHeads, "", "Attention (query) heads per layer."},
      {ECHELON_KEY(model.kv_heads), model_ranges::kHeads, "",
       "`llama`: key and value heads; `heads` is a multiple of it."},
      {ECHELON_KEY(model.max_positions), model_ranges::kMaxPositions, "tokens",
       "`llama`, `gpt2`: longest sequence the model takes."},
      {ECHELON_KEY(model.norm_eps), model_ranges::kNormEps, "",
       "Added to the mean square or variance inside norms."},
      {ECHELON_KEY(model.rope_theta), model_ranges::kRopeTheta, "",
       "`llama`: base of the rotary position frequencies."},
      {ECHELON_KEY(model.tie_embeddings), {}, "", "The output head shares the embedding's weight."},
      {ECHELON_KEY(model.init_std), NumberRange{0.0, 10.0, true, false}, "",
       "Standard deviation of the initial weights."},
      {ECHELON_KEY(model.dropout), model_ranges::kDropout, "",
       "Dropout probability; `cnn`: before the last layer, and half of it after the convolutions. Not "
       "applied "
       "to attention probabilities. Masks depend only on `run.seed` and the sample's number, not on the "
       "number of ranks."},
  };
}

std::vector<Key> own_model_keys() {
  return {
      {ECHELON_KEY(model.decoder_layers), model_ranges::kDecoderLayers, "",
       "`t5`: blocks of the decoder. 0: as many as `layers`."},
      {ECHELON_KEY(model.head_size), model_ranges::kHeadSize, "",
       "`t5`: elements of an attention head. 0: `hidden_size` / `heads`."},
      {ECHELON_KEY(model.feed_forward),
       choices<FeedForward>({{FeedForward::kRelu, "two matrices, as T5 v1.0"},
                             {FeedForward::kGatedGelu, "three matrices, as T5 v1.1"}}),
       "", "`t5`: kind of the feed-forward block."},
      {ECHELON_KEY(model.relative_buckets), model_ranges::kRelativeBuckets, "",
       "`t5`: buckets of the relative position bias."},
      {ECHELON_KEY(model.relative_max_distance), model_ranges::kRelativeMaxDistance, "tokens",
       "`t5`: from this distance on all positions share a bucket."},
      {ECHELON_KEY(model.image_size), IntegerRange{1, 65'536}, "pixels",
       "`vit`, `deepvit`, `cnn`: width and height of the images."},
      {ECHELON_KEY(model.patch_size), IntegerRange{1, 65'536}, "pixels",
       "`vit`, `deepvit`: width and height of a patch; divides `image_size`."},
      {ECHELON_KEY(model.channels), IntegerRange{1, 1'024}, "",
       "`vit`, `deepvit`, `cnn`: colour channels of the images."},
      {ECHELON_KEY(model.classes), IntegerRange{2, 10'000'000}, "",
       "`vit`, `deepvit`, `cnn`: number of classes; every label is below it."},
  };
}

}  // namespace

std::vector<Key> model_keys() {
  std::vector<Key> all = common_model_keys();
  for (const Key& key : own_model_keys()) all.push_back(key);
  return all;
}

}  // namespace echelon::recipe
