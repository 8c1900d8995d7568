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

Key kind_key() {
  return {
      ECHELON_KEY(model.kind),
      choices<ModelKind>(
          {{ModelKind::kLlama,
            "decoder with RMSNorm, rotary positions, grouped-query attention, SwiGLU: Llama 1 to "
            "3.3, SmolLM2, TinyLlama"},
           {ModelKind::kMistral, "as `llama`, with a window of attention: Mistral 7B"},
           {ModelKind::kQwen2, "as `llama`, with biases of queries, keys and values: Qwen2, Qwen2.5"},
           {ModelKind::kQwen3, "as `llama`, with norms of queries and keys: Qwen3, dense"},
           {ModelKind::kOlmo2,
            "as `llama`, with norms of what blocks add, and of all queries and all keys: OLMo 2"},
           {ModelKind::kOlmo3, "as `olmo2`, with a window of attention in most blocks: OLMo 3"},
           {ModelKind::kSmolLm3, "as `llama`, with blocks without rotary positions: SmolLM3"},
           {ModelKind::kGranite,
            "as `llama`, with factors on embeddings, residuals, attention and logits: Granite 3, dense"},
           {ModelKind::kPhi3,
            "as `llama`, with fused products and a window of attention: Phi-3, Phi-3.5, Phi-4, Phi-4-mini"},
           {ModelKind::kGemma3Text,
            "as `llama`, with four norms in a block, norms of queries and keys, GELU, scaled embeddings, "
            "and a window of attention in most blocks: Gemma 3, text only"},
           {ModelKind::kGpt2, "decoder with LayerNorm, learned positions, GELU, biases"},
           {ModelKind::kGptNeoX,
            "decoder with LayerNorm, rotary positions of a part of each head, GELU, biases: GPT-NeoX, "
            "Pythia"},
           {ModelKind::kT5, "encoder-decoder for pairs of texts, v1.0 and v1.1"},
           {ModelKind::kVit, "Vision Transformer for images"},
           {ModelKind::kDeepVit, "ViT whose attention maps are mixed across heads"},
           {ModelKind::kCnn, "the two convolutions and two linear layers of the MNIST tutorials"}}),
      "", "Architecture."};
}

std::vector<Key> common_model_keys() {
  return {
      kind_key(),
      {ECHELON_KEY(model.preset), presets(), "",
       "Published model, listed below, that sets `kind` and every size not given here."},
      {ECHELON_KEY(model.from), Text::kPath, "",
       "Hugging Face folder ([reading one](checkpoints.md#a-hugging-face-folder)): its config.json sets "
       "`kind` and every size, and a new run starts from its weights, of which each rank reads its own "
       "slices. Keys given beside it must agree with it; those of training (`dropout`, `init_std`) may "
       "differ. Weights are not read when the run folder has a checkpoint."},
      {ECHELON_KEY(model.vocab_size), model_ranges::kVocabSize, "tokens",
       "Size of the vocabulary; every token id in the data is below it."},
      {ECHELON_KEY(model.hidden_size), model_ranges::kHiddenSize, "",
       "Width of the residual stream; a multiple of `heads` where `head_size` is 0."},
      {ECHELON_KEY(model.intermediate_size), model_ranges::kIntermediateSize, "",
       "Inner width of the feed-forward block."},
      {ECHELON_KEY(model.layers), model_ranges::kLayers, "", "Number of blocks; of `t5`, of the encoder."},
      {ECHELON_KEY(model.heads), model_ranges::kHeads, "", "Attention (query) heads per layer."},
      {ECHELON_KEY(model.kv_heads), model_ranges::kHeads, "",
       "Families of Llama: key and value heads; `heads` is a multiple of it."},
      {ECHELON_KEY(model.head_size), model_ranges::kHeadSize, "",
       "`t5` and families of Llama: elements of an attention head. 0: `hidden_size` / `heads`."},
      {ECHELON_KEY(model.max_positions), model_ranges::kMaxPositions, "tokens",
       "`gpt2` and kinds with rotary positions: longest sequence the model takes."},
      {ECHELON_KEY(model.norm_eps), model_ranges::kNormEps, "",
       "Added to the mean square or variance inside norms."},
      {ECHELON_KEY(model.norm_rounding),
       choices<NormRounding>(
           {{NormRounding::kTwice, "the normalized value and its product with the weight, as transformers"},
            {NormRounding::kOnce, "only the product, as PyTorch's RMSNorm"}}),
       "", "What RMSNorm rounds to `precision.param` where that has two bytes. fp32 has no such difference."},
      {ECHELON_KEY(model.tie_embeddings), kAny, "", "The output head shares the embedding's weight."},
      {ECHELON_KEY(model.init_std), NumberRange{0.0, 10.0, true, false}, "",
       "Standard deviation of the initial weights."},
      {ECHELON_KEY(model.dropout), model_ranges::kDropout, "",
       "Dropout probability; `cnn`: before the last layer, and half of it after the convolutions. Not "
       "applied to attention probabilities. Masks depend only on `run.seed` and the sample's number, not on "
       "the number of ranks."},
  };
}

std::vector<Key> rotary_model_keys() {
  return {
      {ECHELON_KEY(model.rope_theta), model_ranges::kRopeTheta, "",
       "Base of the rotary position frequencies."},
      {ECHELON_KEY(model.partial_rotary_factor), model_ranges::kPartialRotary, "",
       "`phi3`, `gpt_neox`: share of each head, from its start, that rotary positions turn; `rotary_pct`."},
      {ECHELON_KEY(model.rope_scaling.kind),
       choices<RopeKind>({{RopeKind::kDefault, "as they are"},
                          {RopeKind::kLinear, "all divided by `factor`"},
                          {RopeKind::kDynamic,
                           "as they are, for sequences of up to `original_positions`; longer ones are "
                           "refused"},
                          {RopeKind::kLlama3, "Llama 3.1 and later: long wavelengths divided by `factor`"},
                          {RopeKind::kLongRope,
                           "`phi3`: each divided by its own factor, for sequences of up to "
                           "`original_positions`; longer ones are refused"},
                          {RopeKind::kYarn,
                           "Peng et al.: a ramp between frequencies that are kept and ones divided by "
                           "`factor`"}}),
       "",
       "How rotary frequencies are stretched for sequences longer than those of pretraining; `rope_type` of "
       "transformers, which has the formulas."},
      {ECHELON_KEY(model.rope_scaling.factor), model_ranges::kRopeFactor, "",
       "By which frequencies are divided; of `yarn` and `llama3`, long wavelengths only."},
      {ECHELON_KEY(model.rope_scaling.original_positions), model_ranges::kOriginalPositions, "tokens",
       "Longest sequence of pretraining. 0: `max_positions`."},
      {ECHELON_KEY(model.rope_scaling.low_freq_factor), model_ranges::kRopeTurns, "",
       "`llama3`: wavelengths above `original_positions` / this are divided by `factor`."},
      {ECHELON_KEY(model.rope_scaling.high_freq_factor), model_ranges::kRopeTurns, "",
       "`llama3`: wavelengths below `original_positions` / this are kept."},
      {ECHELON_KEY(model.rope_scaling.beta_fast), model_ranges::kRopeTurns, "turns",
       "`yarn`: frequencies with at least so many turns within `original_positions` are kept."},
      {ECHELON_KEY(model.rope_scaling.beta_slow), model_ranges::kRopeTurns, "turns",
       "`yarn`: frequencies with fewer turns are divided by `factor`."},
      {ECHELON_KEY(model.rope_scaling.attention_factor), model_ranges::kAttentionFactor, "",
       "`yarn`: factor on rotated queries and keys. 0: 0.1 ln(`factor`) + 1."},
      {ECHELON_KEY(model.rope_scaling.short_factor), model_ranges::kRopeFactors, "",
       "`longrope`: by what each frequency is divided, half as many numbers as elements of a head turn."},
      {ECHELON_KEY(model.rope_scaling.long_factor), model_ranges::kRopeFactors, "",
       "`longrope`: the same beyond `original_positions`. Exports state them."},
      {ECHELON_KEY(model.rope_scaling.truncate), kAny, "",
       "`yarn`: the ramp begins and ends at whole numbers of frequencies."},
      {ECHELON_KEY(model.window), model_ranges::kWindow, "tokens",
       "A token attends to itself and `window` - 1 tokens before it. 0: to all before it."},
      {ECHELON_KEY(model.window_from_layer), model_ranges::kDecoderLayers, "",
       "First block that has the window; `max_window_layers` of transformers."},
      {ECHELON_KEY(model.full_attention_every), model_ranges::kDecoderLayers, "",
       "`olmo3`, `gemma3_text`: every so-many-th block attends to all tokens, without the window. 0: none "
       "does."},
      {ECHELON_KEY(model.window_rope_theta), model_ranges::kWindowRopeTheta, "",
       "`gemma3_text`: `rope_theta` of blocks with the window, which are never stretched; "
       "`rope_local_base_freq` of transformers. 0: `rope_theta`."},
      {ECHELON_KEY(model.no_rope_every), model_ranges::kDecoderLayers, "",
       "`smollm3`: every so-many-th block has no rotary positions; `no_rope_layer_interval` of transformers. "
       "0: all have them."},
  };
}

std::vector<Key> own_model_keys() {
  return {
      {ECHELON_KEY(model.embedding_multiplier), model_ranges::kMultiplier, "",
       "`granite`: factor on the embeddings of tokens."},
      {ECHELON_KEY(model.residual_multiplier), model_ranges::kMultiplier, "",
       "`granite`: factor on what attention and feed-forward add to the residual stream."},
      {ECHELON_KEY(model.attention_multiplier), model_ranges::kAttentionMultiplier, "",
       "`granite`: factor on the products of queries and keys. 0: 1 / sqrt(head size)."},
      {ECHELON_KEY(model.query_pre_attn_scalar), model_ranges::kHeadSize, "",
       "`gemma3_text`: products of queries and keys are divided by its root. 0: the head size."},
      {ECHELON_KEY(model.logits_scaling), model_ranges::kMultiplier, "",
       "`granite`: the logits are divided by it."},
      {ECHELON_KEY(model.use_parallel_residual), kAny, "",
       "`gpt_neox`: attention and feed-forward of a block read the same input. false: feed-forward "
       "reads what attention has added to."},
      {ECHELON_KEY(model.hidden_act),
       choices<HiddenAct>({{HiddenAct::kGelu, "of Pythia"},
                           {HiddenAct::kGeluFast, "its approximation with tanh, of GPT-NeoX-20B"}}),
       "", "`gpt_neox`: activation of the feed-forward block."},
      {ECHELON_KEY(model.decoder_layers), model_ranges::kDecoderLayers, "",
       "`t5`: blocks of the decoder. 0: as many as `layers`."},
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
       "`vit`, `deepvit`, `cnn`: color channels of the images."},
      {ECHELON_KEY(model.classes), IntegerRange{2, 10'000'000}, "",
       "`vit`, `deepvit`, `cnn`: number of classes; every label is below it."},
  };
}

}  // namespace

std::vector<Key> model_keys() {
  return joined({common_model_keys(), rotary_model_keys(), own_model_keys()});
}

std::vector<Key> lora_keys() {
  return {
      {ECHELON_KEY(lora.rank), IntegerRange{0, 4096}, "",
       "Width of the adapters. 0: none, the whole model is trained. Families of Llama and `gpt_neox` can "
       "have them."},
      {ECHELON_KEY(lora.alpha), NumberRange{0.0, 1e6, true, false}, "",
       "What an adapter makes is multiplied by `alpha` / `rank`."},
      {ECHELON_KEY(lora.use_rslora), kAny, "",
       "Rank-stabilized: multiplied by `alpha` / sqrt(`rank`) instead."},
      {ECHELON_KEY(lora.dropout), model_ranges::kDropout, "",
       "Dropout probability of an adapter's input in training."},
      {ECHELON_KEY(lora.modules), Text::kPattern, "",
       "Matrices with an adapter, by name or the end of one: `q_proj`, `layers.0.mlp.*_proj`. Empty: all "
       "matrices of the blocks."},
      {ECHELON_KEY(lora.also_train), Text::kPattern, "",
       "Modules that are trained whole, such as `lm_head` or `embed_tokens`; peft's `modules_to_save`."},
  };
}

}  // namespace echelon::recipe
