#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/str.h"
#include "reference/models.h"

namespace echelon::reference {
namespace {

/// Radians that pair number `i` of a head turns by from one position to the next.
double turn_of(std::int64_t i, const ModelOptions& model) {
  const auto size = static_cast<double>(head_size(model));
  const auto original = static_cast<double>(original_positions(model));
  const RopeScalingOptions& rope = model.rope_scaling;
  const double turn = std::pow(model.rope_theta, -2.0 * static_cast<double>(i) / size);
  const double turns = original * turn / (2 * std::numbers::pi);  // within the original positions
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:  // no sequence here is longer than the original positions
      return turn;
    case RopeKind::kLinear:
      return turn / rope.factor;
    case RopeKind::kLlama3: {
      if (turns < rope.low_freq_factor) return turn / rope.factor;
      if (turns > rope.high_freq_factor) return turn;
      const double kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      return (1 - kept) * turn / rope.factor + kept * turn;
    }
    case RopeKind::kYarn: {
      // The pair that makes so many turns within the original positions.
      const auto pair_of = [&](double count) {
        return size * std::log(original / (count * 2 * std::numbers::pi)) / (2 * std::log(model.rope_theta));
      };
      double first = pair_of(rope.beta_fast);
      double last = pair_of(rope.beta_slow);
      if (rope.truncate) {
        first = std::floor(first);
        last = std::ceil(last);
      }
      first = std::max(first, 0.0);
      last = std::min(last, size - 1);
      if (first == last) last += 0.001;
      const double ramp = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
      return turn / rope.factor * ramp + turn * (1 - ramp);
    }
  }
  return turn;
}

/// Factor on queries and on keys.
double rope_factor(const RopeScalingOptions& rope) {
  if (rope.kind != RopeKind::kYarn) return 1;
  if (rope.attention_factor > 0) return rope.attention_factor;
  return rope.factor <= 1 ? 1 : 0.1 * std::log(rope.factor) + 1;
}

/// Rotates each head of `rows` [tokens, heads x d] by its position: element i with element i + d/2.
at::Tensor rotated(const at::Tensor& rows, std::int64_t heads, const ModelOptions& model) {
  const std::int64_t half = head_size(model) / 2;
  std::vector<double> turns;
  for (std::int64_t i = 0; i < half; ++i) turns.push_back(turn_of(i, model));
  const at::Tensor angle = at::outer(at::arange(rows.size(0), at::kDouble), at::tensor(turns, at::kDouble));
  const double factor = rope_factor(model.rope_scaling);
  const at::Tensor cos = (at::cos(angle) * factor).to(rows.scalar_type()).unsqueeze(1);
  const at::Tensor sin = (at::sin(angle) * factor).to(rows.scalar_type()).unsqueeze(1);
  const at::Tensor each = rows.view({rows.size(0), heads, 2 * half});
  const at::Tensor a = each.narrow(2, 0, half);
  const at::Tensor b = each.narrow(2, half, half);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, 2).reshape_as(rows);
}

/// RMSNorm of each head, if the model has one.
at::Tensor by_head_norm(const Pass& pass, const std::string& name, const at::Tensor& rows) {
  if (!pass.weights.contains(name + ".weight")) return rows;
  return rms_normed(pass, name, rows.view({rows.size(0), -1, head_size(pass.model)})).reshape_as(rows);
}

at::Tensor llama_block(std::int64_t number, const at::Tensor& x, const Pass& pass) {
  const ModelOptions& model = pass.model;
  const std::string block = str("model.layers.", number);
  const std::string self = block + ".self_attn";
  const std::string mlp = block + ".mlp";
  const at::Tensor in = rms_normed(pass, block + ".input_layernorm", x);
  const std::vector<at::Tensor> qkv =
      adapted(pass, {self + ".q_proj", self + ".k_proj", self + ".v_proj"}, in);
  const at::Tensor q = by_head_norm(pass, self + ".q_norm", qkv[0]);
  const at::Tensor k = by_head_norm(pass, self + ".k_norm", qkv[1]);
  const Attention options{.heads = model.heads,
                          .kv_heads = model.kv_heads,
                          .scale = 1 / std::sqrt(static_cast<double>(head_size(model))),
                          .causal = true,
                          .window = number >= model.window_from_layer ? model.window : 0,
                          .bias = {}};
  const at::Tensor attended =
      attention(rotated(q, model.heads, model), rotated(k, model.kv_heads, model), qkv[2], options);
  const at::Tensor middle = x + adapted(pass, {self + ".o_proj"}, attended)[0];
  const at::Tensor inner = rms_normed(pass, block + ".post_attention_layernorm", middle);
  const std::vector<at::Tensor> gate_up = adapted(pass, {mlp + ".gate_proj", mlp + ".up_proj"}, inner);
  const at::Tensor gated = gate_up[0] * at::sigmoid(gate_up[0]) * gate_up[1];
  return middle + adapted(pass, {mlp + ".down_proj"}, gated)[0];
}

}  // namespace

at::Tensor llama_loss(const Pass& pass, const SampleBatch& sample) {
  const std::string head = pass.model.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  return sum_over_sequences(pass, sample, [&](const Pass& here, const at::Tensor& ids) {
    at::Tensor x = weight_of(here, "model.embed_tokens.weight").index_select(0, ids);
    for (std::int64_t block = 0; block < here.model.layers; ++block) x = llama_block(block, x, here);
    return at::matmul(rms_normed(here, "model.norm", x), weight_of(here, head).t());
  });
}

}  // namespace echelon::reference
