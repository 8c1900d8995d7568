#include "recipe/parameter_count.h"

#include "recipe/check/checked.h"

namespace echelon::recipe {
namespace {

/// A matrix product with a bias.
Checked affine(const Checked& in, const Checked& out) {
  return in * out + out;
}

/// A norm with weight and bias.
Checked layer_norm(const Checked& width) {
  return Checked(2) * width;
}

/// RMSNorm, grouped-query attention and SwiGLU, none with a bias.
Checked llama(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const Checked kv_width = Checked(model.hidden_size / model.heads) * model.kv_heads;
  const Checked attention = Checked(2) * hidden * hidden + Checked(2) * hidden * kv_width;
  const Checked feed_forward = Checked(3) * hidden * model.intermediate_size;
  const Checked embeddings = hidden * model.vocab_size * (model.tie_embeddings ? 1 : 2);
  return Checked(model.layers) * (attention + feed_forward + Checked(2) * hidden) + hidden + embeddings;
}

/// Learned positions; a head without bias.
Checked gpt2(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const Checked attention = affine(hidden, Checked(3) * hidden) + affine(hidden, hidden);
  const Checked feed_forward =
      affine(hidden, model.intermediate_size) + affine(model.intermediate_size, hidden);
  const Checked embeddings =
      hidden * (Checked(model.vocab_size) * (model.tie_embeddings ? 1 : 2) + model.max_positions);
  return Checked(model.layers) * (attention + feed_forward + Checked(2) * layer_norm(hidden)) +
         layer_norm(hidden) + embeddings;
}

/// Encoder and decoder share the embedding; the first block of each holds the table of position biases.
Checked t5(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const std::int64_t head = model.head_size > 0 ? model.head_size : model.hidden_size / model.heads;
  const Checked attention = Checked(4) * hidden * (Checked(model.heads) * head) + hidden;
  const Checked matrices = model.feed_forward == FeedForward::kGatedGelu ? 3 : 2;
  const Checked feed_forward = matrices * hidden * model.intermediate_size + hidden;
  const Checked biases = Checked(2) * model.relative_buckets * model.heads;
  const std::int64_t decoder_layers = model.decoder_layers > 0 ? model.decoder_layers : model.layers;
  const Checked embeddings = hidden * model.vocab_size * (model.tie_embeddings ? 1 : 2);
  return Checked(model.layers) * (attention + feed_forward) +
         Checked(decoder_layers) * (Checked(2) * attention + feed_forward) + Checked(2) * hidden + biases +
         embeddings;
}

/// Class token, learned positions, final norm and head: what plain and deep ViT have in common.
Checked vit_frame(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const std::int64_t patches = model.image_size / model.patch_size;
  const Checked patch_size = Checked(model.patch_size) * model.patch_size * model.channels;
  return affine(patch_size, hidden) + hidden * (Checked(patches) * patches + 2) + layer_norm(hidden) +
         affine(hidden, model.classes);
}

Checked vit_feed_forward(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  return affine(hidden, model.intermediate_size) + affine(model.intermediate_size, hidden) +
         layer_norm(hidden);
}

Checked vit(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const Checked attention = Checked(4) * affine(hidden, hidden) + layer_norm(hidden);
  return Checked(model.layers) * (attention + vit_feed_forward(model)) + vit_frame(model);
}

/// Queries, keys and values without bias; attention maps are mixed by a matrix over heads and normed.
Checked deepvit(const ModelOptions& model) {
  const Checked hidden = model.hidden_size;
  const Checked mixing = Checked(model.heads) * model.heads + layer_norm(model.heads);
  const Checked attention =
      Checked(3) * hidden * hidden + mixing + affine(hidden, hidden) + layer_norm(hidden);
  return Checked(model.layers) * (attention + vit_feed_forward(model)) + vit_frame(model);
}

/// Two convolutions of 3 x 3 without padding, a pool of 2 x 2, two linear layers.
Checked cnn(const ModelOptions& model) {
  const std::int64_t side = (model.image_size - 4) / 2;
  const Checked convolutions = affine(Checked(9) * model.channels, 32) + affine(9 * 32, 64);
  return convolutions + affine(Checked(64) * side * side, 128) + affine(128, model.classes);
}

}  // namespace

std::optional<std::int64_t> parameter_count(const ModelOptions& model) {
  switch (model.kind) {
    case ModelKind::kLlama:
      return llama(model).value();
    case ModelKind::kGpt2:
      return gpt2(model).value();
    case ModelKind::kT5:
      return t5(model).value();
    case ModelKind::kVit:
      return vit(model).value();
    case ModelKind::kDeepVit:
      return deepvit(model).value();
    case ModelKind::kCnn:
      return cnn(model).value();
  }
  return std::nullopt;
}

}  // namespace echelon::recipe
