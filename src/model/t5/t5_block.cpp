#include "model/t5/t5_block.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"

namespace echelon {
namespace {

using Parts = std::vector<Parameter::Part>;
using Shape = std::vector<std::int64_t>;

/// Width of all heads of an attention.
std::int64_t heads_width(const ModelOptions& options) {
  return options.heads * t5_head_size(options);
}

}  // namespace

std::int64_t t5_head_size(const ModelOptions& options) {
  return options.head_size > 0 ? options.head_size : options.hidden_size / options.heads;
}

InitSpec t5_normal(double variance) {
  return {InitSpec::Kind::kNormal, static_cast<float>(std::sqrt(variance))};
}

T5Norm::T5Norm(Layer& layer, const ModelOptions& options)
    : layer_(&layer),
      weight_(&layer.add(layer.name() + ".weight", Shape{options.hidden_size},
                         InitSpec{InitSpec::Kind::kConstant, 1.0F})),
      eps_(options.norm_eps) {}

at::Tensor T5Norm::forward(const at::Tensor& x) const {
  return layer_->run(
      x, [weight = weight_, eps = eps_](const at::Tensor& in) { return ops::rms_norm(in, *weight, eps); });
}

ops::Recompute T5Norm::again(const Layer& block, const at::Tensor& x) const {
  // A norm gathered on its own has no weights when the product's backward runs.
  if (!block.recomputes_cheap() || layer_->hooked()) return {};
  return [weight = weight_, eps = eps_, x = x.detach()] { return ops::rms_norm(x, *weight, eps); };
}

T5Block::T5Block(Layer& layer, const ModelOptions& options, bool decoder)
    : layer_(&layer),
      options_(options),
      decoder_(decoder),
      self_(self_attention(layer)),
      cross_(decoder ? std::optional(cross_attention(layer)) : std::nullopt),
      feed_forward_(feed_forward(layer, decoder ? 2 : 1)) {}

T5Block::Attention T5Block::self_attention(Layer& layer) const {
  const std::string name = layer.name() + ".layer.0";
  const std::string prefix = name + ".SelfAttention";
  const T5Norm norm(layer.add_layer(name + ".layer_norm"), options_);
  Layer& part = layer.add_layer(prefix);
  const std::int64_t hidden = options_.hidden_size;
  const std::int64_t width = heads_width(options_);
  const InitSpec init = t5_normal(1.0 / static_cast<double>(hidden));
  // The queries' start takes the place of a scale on the scores.
  const InitSpec of_queries = t5_normal(1.0 / static_cast<double>(hidden * t5_head_size(options_)));
  Parameter& qkv = part.add(Parts{{prefix + ".q.weight", {width, hidden}, of_queries},
                                  {prefix + ".k.weight", {width, hidden}},
                                  {prefix + ".v.weight", {width, hidden}}},
                            init);
  Parameter& out =
      part.add(prefix + ".o.weight", Shape{hidden, width}, t5_normal(1.0 / static_cast<double>(width)));
  return {name, norm, &part, &qkv, nullptr, &out};
}

T5Block::Attention T5Block::cross_attention(Layer& layer) const {
  const std::string name = layer.name() + ".layer.1";
  const std::string prefix = name + ".EncDecAttention";
  const T5Norm norm(layer.add_layer(name + ".layer_norm"), options_);
  Layer& part = layer.add_layer(prefix);
  const std::int64_t hidden = options_.hidden_size;
  const std::int64_t width = heads_width(options_);
  Parameter& q = part.add(prefix + ".q.weight", Shape{width, hidden},
                          t5_normal(1.0 / static_cast<double>(hidden * t5_head_size(options_))));
  Parameter& kv =
      part.add(Parts{{prefix + ".k.weight", {width, hidden}}, {prefix + ".v.weight", {width, hidden}}},
               t5_normal(1.0 / static_cast<double>(hidden)));
  Parameter& out =
      part.add(prefix + ".o.weight", Shape{hidden, width}, t5_normal(1.0 / static_cast<double>(width)));
  return {name, norm, &part, &q, &kv, &out};
}

T5Block::FeedForward T5Block::feed_forward(Layer& layer, int number) const {
  const std::string name = str(layer.name(), ".layer.", number);
  const std::string prefix = name + ".DenseReluDense";
  const T5Norm norm(layer.add_layer(name + ".layer_norm"), options_);
  Layer& part = layer.add_layer(prefix);
  const std::int64_t hidden = options_.hidden_size;
  const std::int64_t width = options_.intermediate_size;
  Parts inner;
  if (options_.feed_forward == echelon::FeedForward::kGatedGelu) {
    inner.push_back({prefix + ".wi_0.weight", {width, hidden}});
    inner.push_back({prefix + ".wi_1.weight", {width, hidden}});
  } else {
    inner.push_back({prefix + ".wi.weight", {width, hidden}});
  }
  Parameter& in = part.add(inner, t5_normal(1.0 / static_cast<double>(hidden)));
  Parameter& out =
      part.add(prefix + ".wo.weight", Shape{hidden, width}, t5_normal(1.0 / static_cast<double>(width)));
  return {name, norm, &part, &in, &out};
}

ops::AttentionOptions T5Block::geometry(bool causal) const {
  return {.heads = options_.heads,
          .kv_heads = options_.heads,
          .head_dim = t5_head_size(options_),
          .causal = causal,
          .scale = 1.0F};
}

at::Tensor T5Block::forward(const LayerInputs& inputs, const T5Pass& pass) const {
  at::Tensor x = attend(inputs.at(0), inputs.at(1), pass);
  if (cross_) x = attend_to_source(x, inputs.at(2), pass);
  return feed(x, pass);
}

at::Tensor T5Block::attend(const at::Tensor& x, const at::Tensor& bias, const T5Pass& pass) const {
  const at::Tensor attended = self_.layer->run(
      {self_.norm.forward(x), bias},
      [this, pass, again = self_.norm.again(*layer_, x)](const LayerInputs& in) {
        const at::Tensor qkv = ops::linear(in.at(0), *self_.in, again);
        const at::Tensor heads = pass->kept != nullptr
                                     ? step(qkv, in.at(1), *pass->kept)
                                     : ops::self_attention(qkv, pass->sequences, geometry(decoder_),
                                                           {.rotary = {}, .bias = in.at(1)});
        return ops::linear(heads, *self_.out);
      });
  return x + ops::dropout(attended, options_.dropout, pass->batch, self_.name);
}

at::Tensor T5Block::attend_to_source(const at::Tensor& x, const at::Tensor& encoded,
                                     const T5Pass& pass) const {
  const at::Tensor attended = cross_->layer->run(
      {cross_->norm.forward(x), encoded},
      [this, pass, again = cross_->norm.again(*layer_, x)](const LayerInputs& in) {
        const at::Tensor q = ops::linear(in.at(0), *cross_->in, again);
        const at::Tensor heads = pass->kept != nullptr
                                     ? step_to_source(q, in.at(1), *pass)
                                     : ops::cross_attention(q, ops::linear(in.at(1), *cross_->kv),
                                                            pass->sequences, pass->sources, geometry(false));
        return ops::linear(heads, *cross_->out);
      });
  return x + ops::dropout(attended, options_.dropout, pass->batch, cross_->name);
}

at::Tensor T5Block::step(const at::Tensor& qkv, const at::Tensor& bias, T5Kept& kept) const {
  const auto parts = qkv.view({qkv.size(0), 3, options_.heads, -1}).unbind(1);
  KvCache& cache = kept.self.at(this);
  cache.append(parts[1], parts[2]);
  // The last query's distances: to the tokens before, then to itself.
  return cache.attend(parts[0].reshape({qkv.size(0), -1}), bias.narrow(1, 0, cache.longest()).unsqueeze(0));
}

at::Tensor T5Block::step_to_source(const at::Tensor& q, const at::Tensor& encoded,
                                   const T5Tokens& tokens) const {
  KvCache& cache = tokens.kept->source.at(this);
  if (cache.longest() == 0) {
    const auto parts =
        ops::linear(encoded, *cross_->kv).view({encoded.size(0), 2, options_.heads, -1}).unbind(1);
    cache.fill(parts[0], parts[1], *tokens.sources);
  }
  return cache.attend(q);
}

at::Tensor T5Block::feed(const at::Tensor& x, const T5Pass& pass) const {
  const at::Tensor fed = feed_forward_.layer->run(
      feed_forward_.norm.forward(x),
      [this, pass, again = feed_forward_.norm.again(*layer_, x)](const at::Tensor& in) {
        const std::string site = feed_forward_.name + ".inner";
        const at::Tensor inner = ops::linear(in, *feed_forward_.inner, again);
        if (options_.feed_forward == echelon::FeedForward::kRelu)
          return ops::linear(ops::relu_dropout(inner, options_.dropout, pass->batch, site),
                             *feed_forward_.outer);
        const auto gated = [dropout = options_.dropout, pass, site](const at::Tensor& gate_up) {
          return ops::dropout(ops::geglu(gate_up), dropout, pass->batch, site);
        };
        ops::Recompute gated_again;
        if (layer_->recomputes_cheap()) gated_again = [gated, kept = inner.detach()] { return gated(kept); };
        return ops::linear(gated(inner), *feed_forward_.outer, gated_again);
      });
  return x + ops::dropout(fed, options_.dropout, pass->batch, feed_forward_.name);
}

}  // namespace echelon
