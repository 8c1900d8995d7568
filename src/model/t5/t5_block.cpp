#include "model/t5/t5_block.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"

namespace echelon {
namespace {

double width_of_heads(const ModelOptions& options) {
  return static_cast<double>(options.heads * head_size(options));
}

/// For products whose input is the hidden states.
InitSpec of_hidden(const ModelOptions& options) {
  return t5_normal(1.0 / static_cast<double>(options.hidden_size));
}

/// T5 does not scale attention scores; the smaller initial query weights replace the factor 1 /
/// sqrt(head_size).
InitSpec of_queries(const ModelOptions& options) {
  return t5_normal(1.0 / static_cast<double>(options.hidden_size * head_size(options)));
}

}  // namespace

InitSpec t5_normal(double variance) {
  return normal(std::sqrt(variance));
}

T5Block::T5Block(Layer& layer, const ModelOptions& options, const ShapeTable& shapes, bool decoder)
    : layer_(&layer),
      options_(options),
      decoder_(decoder),
      self_(self_attention(layer, shapes)),
      cross_(decoder ? std::optional(cross_attention(layer, shapes)) : std::nullopt),
      feed_forward_(feed_forward(layer, shapes)) {}

std::string T5Block::sublayer(int number) const {
  return str(layer_->name(), ".layer.", number);
}

Attention T5Block::self_attention(Layer& layer, const ShapeTable& shapes) const {
  const Norm norm(layer.add_layer(sublayer(0) + ".layer_norm"), shapes, options_);
  const std::string name = sublayer(0) + ".SelfAttention";
  Layer& part = layer.add_layer(name);
  std::vector<Parameter::Part> qkv = stacked({name + ".q", name + ".k", name + ".v"}, "weight", shapes);
  qkv.front().init = of_queries(options_);
  const Linear in{&part.add(std::move(qkv), of_hidden(options_))};
  return {&part, norm, in, add_linear(part, name + ".o", shapes, t5_normal(1.0 / width_of_heads(options_)))};
}

T5Block::CrossAttention T5Block::cross_attention(Layer& layer, const ShapeTable& shapes) const {
  const Norm norm(layer.add_layer(sublayer(1) + ".layer_norm"), shapes, options_);
  const std::string name = sublayer(1) + ".EncDecAttention";
  Layer& part = layer.add_layer(name);
  const Linear q = add_linear(part, name + ".q", shapes, of_queries(options_));
  const Linear kv = add_stacked(part, {name + ".k", name + ".v"}, shapes, of_hidden(options_));
  const Linear out = add_linear(part, name + ".o", shapes, t5_normal(1.0 / width_of_heads(options_)));
  return {{&part, norm, q, out}, kv};
}

Mlp T5Block::feed_forward(Layer& layer, const ShapeTable& shapes) const {
  const std::string sub = sublayer(feed_forward_number());
  const Norm norm(layer.add_layer(sub + ".layer_norm"), shapes, options_);
  const std::string name = sub + ".DenseReluDense";
  Layer& part = layer.add_layer(name);
  const std::vector<std::string> inner = options_.feed_forward == FeedForward::kGatedGelu
                                             ? std::vector{name + ".wi_0", name + ".wi_1"}
                                             : std::vector{name + ".wi"};
  const Linear in = add_stacked(part, inner, shapes, of_hidden(options_));
  const InitSpec of_inner = t5_normal(1.0 / static_cast<double>(options_.intermediate_size));
  return {&part, norm, in, add_linear(part, name + ".wo", shapes, of_inner)};
}

ops::AttentionOptions T5Block::geometry(bool causal) const {
  return {.heads = options_.heads,
          .kv_heads = options_.heads,
          .head_dim = head_size(options_),
          .causal = causal,
          .scale = 1.0F};
}

at::Tensor T5Block::forward(const LayerInputs& inputs, const T5Pass& pass) const {
  Residual stream(inputs.at(0));
  attend(stream, inputs.at(1), pass);
  if (cross_) attend_to_source(stream, inputs.at(2), pass);
  feed(stream, pass);
  return stream.value();
}

void T5Block::attend(Residual& stream, const at::Tensor& bias, const T5Pass& pass) const {
  const Attend attend = [this, pass](const at::Tensor& qkv, const LayerInputs& in) {
    if (pass->kept != nullptr) return step(qkv, in.at(1), *pass->kept);
    return ops::self_attention(qkv, pass->sequences, geometry(decoder_), {.rotary = {}, .bias = in.at(1)});
  };
  const at::Tensor attended = self_.forward(*layer_, stream, attend, {bias});
  stream.add(ops::dropout(attended, options_.dropout, pass->batch, sublayer(0)));
}

void T5Block::attend_to_source(Residual& stream, const at::Tensor& encoded, const T5Pass& pass) const {
  const Attend attend = [this, pass](const at::Tensor& q, const LayerInputs& in) {
    if (pass->kept != nullptr) return step_to_source(q, in.at(1), *pass);
    return ops::cross_attention(q, cross_->kv.forward(in.at(1)), pass->sequences, pass->sources,
                                geometry(false));
  };
  const at::Tensor attended = cross_->attention.forward(*layer_, stream, attend, {encoded});
  stream.add(ops::dropout(attended, options_.dropout, pass->batch, sublayer(1)));
}

at::Tensor T5Block::step(const at::Tensor& qkv, const at::Tensor& bias, T5Kept& kept) const {
  const auto parts = qkv.view({qkv.size(0), 3, options_.heads, -1}).unbind(1);
  KvCache& cache = kept.self.at(this);
  cache.append(parts[1], parts[2]);
  // The bias begins with the distances of the newest token to all earlier ones and to itself.
  return cache.attend(parts[0].reshape({qkv.size(0), -1}), bias.narrow(1, 0, cache.longest()).unsqueeze(0));
}

at::Tensor T5Block::step_to_source(const at::Tensor& q, const at::Tensor& encoded,
                                   const T5Tokens& tokens) const {
  KvCache& cache = tokens.kept->source.at(this);
  if (cache.longest() == 0) {
    const auto parts = cross_->kv.forward(encoded).view({encoded.size(0), 2, options_.heads, -1}).unbind(1);
    cache.fill(parts[0], parts[1], *tokens.sources);
  }
  return cache.attend(q);
}

void T5Block::feed(Residual& stream, const T5Pass& pass) const {
  const std::string name = sublayer(feed_forward_number());
  Activation activation;
  switch (options_.feed_forward) {
    case FeedForward::kRelu:
      // The backward of relu needs its result, which the next product keeps anyway.
      activation = {[=, this](const at::Tensor& inner) {
                      return ops::relu_dropout(inner, options_.dropout, pass->batch, name + ".inner");
                    },
                    false};
      break;
    case FeedForward::kGatedGelu:
      activation = {[=, this](const at::Tensor& gate_up) {
        return ops::dropout(ops::geglu(gate_up), options_.dropout, pass->batch, name + ".inner");
      }};
      break;
  }
  const at::Tensor fed = feed_forward_.forward(*layer_, stream, activation);
  stream.add(ops::dropout(fed, options_.dropout, pass->batch, name));
}

}  // namespace echelon
