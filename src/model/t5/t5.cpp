#include "model/t5/t5.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/error.h"
#include "base/str.h"
#include "model/t5/t5_positions.h"

namespace echelon {
namespace {

/// The padding token, which also starts a target, as in all published T5s.
constexpr std::int64_t kStart = 0;

/// `of`: the sequences of the stack's tokens.
T5Pass pass_over(const Batch& batch, const Sequences& of, const Sequences& sources) {
  return std::make_shared<const T5Tokens>(
      T5Tokens{.sequences = of, .sources = sources, .batch = draws_of(batch, of)});
}

/// The decoder's input for `targets`.
at::Tensor moved_right(const at::Tensor& targets, const SequenceLayout& sequences) {
  const at::Tensor before = at::roll(targets, 1).clamp_min(kStart);  // an ignored target becomes padding
  return at::where(sequences.positions(targets.device()) == 0, kStart, before);
}

}  // namespace

/// Runs the encoder once, and computes keys and values of its output once.
class T5::TokenByToken final : public Decoder {
 public:
  TokenByToken(const T5& model, const Batch& prompts) : model_(model), prompts_(prompts) {
    for (const T5Block& block : model.decoder_.blocks) {
      kept_.self.emplace(&block, KvCache(block.geometry(true)));
      kept_.source.emplace(&block, KvCache(block.geometry(false)));
    }
  }

  at::Tensor start() override {
    encoded_ = model_.encoded(prompts_);
    return step(at::full({prompts_.sequences->count()}, kStart, prompts_.ids.options().dtype(at::kLong)));
  }
  at::Tensor step(const at::Tensor& ids) override {
    const auto pass = std::make_shared<const T5Tokens>(T5Tokens{.sequences = make_sequences(ids.size(0), 1),
                                                                .sources = prompts_.sequences,
                                                                .batch = {},
                                                                .kept = &kept_});
    const at::Tensor hidden = model_.body(model_.decoder_, ids, pass, encoded_);
    at::Tensor logits = model_.head_layer_->run(hidden, [&model = model_, pass](const at::Tensor& x) {
      return ops::linear(model.head_input(x, pass), *model.head_).to(at::kFloat);
    });
    ++kept_.tokens;
    return logits;
  }
  void reorder(const at::Tensor& rows) override {
    for (auto& [block, cache] : kept_.self) cache.reorder(rows);
    for (auto& [block, cache] : kept_.source) cache.reorder(rows);
  }

 private:
  const T5& model_;
  Batch prompts_;
  T5Kept kept_;
  at::Tensor encoded_;
};

T5::T5(const ModelOptions& options, const ModelTypes& types) : Model(options, types) {
  const ShapeTable shapes(options);
  shared_.push_back(
      {std::make_unique<Parameter>("shared.weight", shapes.at("shared.weight"), t5_normal(1.0)), {}});
  embedding_ = shared_.back().parameter.get();
  add_stack(encoder_, "encoder", options.layers, shapes);
  encoder_.final_norm.emplace(add_layer("encoder.final_layer_norm", Layer::Role::kPart), shapes, options);
  add_stack(decoder_, "decoder", decoder_layers(options), shapes);
  add_head(shapes);
}

void T5::add_stack(Stack& stack, const std::string& name, std::int64_t count, const ShapeTable& shapes) {
  const auto add = [&](const std::string& layer, Layer::Role role) {
    return &add_layer(str(name, '.', layer), role);
  };
  stack.embedding = add("embed_tokens", Layer::Role::kEmbedding);
  shared_.front().users.push_back(stack.embedding);
  // Named as in transformers, where it belongs to the first block. All blocks use it, so it is a layer
  // outside the blocks.
  stack.bias_layer = add("block.0.layer.0.SelfAttention.relative_attention_bias", Layer::Role::kPart);
  stack.bias = add_linear(*stack.bias_layer, stack.bias_layer->name(), shapes,
                          t5_normal(1.0 / static_cast<double>(options_.hidden_size)))
                   .weight;
  stack.blocks.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    stack.layers.push_back(add(str("block.", i), Layer::Role::kBlock));
    stack.blocks.emplace_back(*stack.layers.back(), options_, shapes, &stack == &decoder_);
  }
}

void T5::add_head(const ShapeTable& shapes) {
  head_layer_ = &add_layer("lm_head", Layer::Role::kHead);
  decoder_.final_norm.emplace(head_layer_->add_layer("decoder.final_layer_norm"), shapes, options_);
  if (options_.tie_embeddings) {
    head_ = embedding_;
    shared_.front().users.push_back(head_layer_);
  } else {
    head_ = add_linear(*head_layer_, "lm_head", shapes, t5_normal(1.0)).weight;
  }
}

at::Tensor T5::bias_of(const Stack& stack, std::int64_t span, at::Device device) const {
  const RelativeBuckets buckets{options_.relative_buckets, options_.relative_max_distance,
                                &stack == &encoder_};
  return stack.bias_layer->run(
      bucket_of_distance(buckets, span, device), [weight = stack.bias](const at::Tensor& bucket) {
        // In fp32, because the gradients of many distances are summed in one bucket. at::embedding() sums
        // them in a fixed order on a GPU.
        return at::embedding(ops::use(*weight).to(at::kFloat), bucket).t().contiguous();
      });
}

at::Tensor T5::finished(const Stack& stack, const at::Tensor& x, const T5Pass& pass) const {
  return ops::dropout(stack.final_norm->forward(x), options_.dropout, pass->batch,
                      &stack == &encoder_ ? "encoder.final" : "decoder.final");
}

at::Tensor T5::body(const Stack& stack, const at::Tensor& ids, const T5Pass& pass,
                    const at::Tensor& encoded) const {
  at::Tensor x =
      stack.embedding->run(ids, [this](const at::Tensor& flat) { return ops::embedding(flat, *embedding_); });
  x = ops::dropout(x, options_.dropout, pass->batch, stack.embedding->name());
  const std::int64_t span = pass->kept != nullptr ? pass->kept->tokens + 1 : pass->sequences->longest();
  const at::Tensor bias = bias_of(stack, span, ids.device());
  for (std::size_t i = 0; i < stack.blocks.size(); ++i) {
    LayerInputs inputs{x, bias};
    if (encoded.defined()) inputs.push_back(encoded);
    x = stack.layers[i]->run(
        inputs, [block = &stack.blocks[i], pass](const LayerInputs& in) { return block->forward(in, pass); });
  }
  return x;
}

at::Tensor T5::encoded(const Batch& batch) const {
  const T5Pass sources = pass_over(batch, batch.sequences, nullptr);
  return finished(encoder_, body(encoder_, batch.ids, sources, {}), sources);
}

at::Tensor T5::head_input(const at::Tensor& x, const T5Pass& pass) const {
  const at::Tensor last = finished(decoder_, x, pass);
  return options_.tie_embeddings ? last * (1.0 / std::sqrt(static_cast<double>(options_.hidden_size))) : last;
}

at::Tensor T5::loss(const Batch& batch, double gradient_scale) {
  if (batch.sequences == nullptr || batch.target_sequences == nullptr ||
      batch.sequences->count() != batch.target_sequences->count()) {
    throw Error(Code::kUsage,
                "a T5 trains on pairs; expected a target for each source, as from data.kind: "
                "synthetic_pairs");
  }
  const at::Tensor sources = encoded(batch);
  const T5Pass targets = pass_over(batch, batch.target_sequences, batch.sequences);
  const at::Tensor hidden =
      body(decoder_, moved_right(batch.targets, *batch.target_sequences), targets, sources);
  return head_layer_->run(hidden, [=, this, expected = batch.targets](const at::Tensor& x) {
    return ops::linear_cross_entropy(head_input(x, targets), *head_, expected, gradient_scale, output_);
  });
}

std::unique_ptr<Decoder> T5::decoder(const Batch& prompts) const {
  return std::make_unique<TokenByToken>(*this, prompts);
}

SampleFlops T5::flops_per_sample(const SampleShape& shape) const {
  const auto hidden = static_cast<double>(options_.hidden_size);
  const double projection = hidden * static_cast<double>(options_.heads * head_size(options_));
  const double matrices = options_.feed_forward == FeedForward::kGatedGelu ? 3.0 : 2.0;
  const double feed_forward = matrices * hidden * static_cast<double>(options_.intermediate_size);
  const auto sources = static_cast<double>(shape.tokens);
  const auto targets = static_cast<double>(shape.target_tokens);
  // Each block of the decoder computes keys and values for every token of the encoder's output.
  const double encoder_weights = static_cast<double>(options_.layers) * (4.0 * projection + feed_forward);
  const auto decoder = static_cast<double>(decoder_layers(options_));
  const double weights = sources * (encoder_weights + decoder * 2.0 * projection) +
                         targets * (decoder * (6.0 * projection + feed_forward) +
                                    hidden * static_cast<double>(options_.vocab_size));
  const double pairs = static_cast<double>(options_.layers) * sources * sources +
                       decoder * (targets * targets + targets * sources);
  return {6.0 * weights, 12.0 * projection / hidden * pairs};
}

}  // namespace echelon
