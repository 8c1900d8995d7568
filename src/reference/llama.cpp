#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"
#include "reference/models.h"
#include "shapes/llama_family.h"

namespace echelon::reference {
namespace {

bool has(const Pass& pass, const std::string& name) {
  return pass.weights.contains(name + ".weight");
}

/// RMSNorm, if the model has one of this name.
at::Tensor normed(const Pass& pass, const std::string& name, const at::Tensor& x) {
  return has(pass, name) ? rms_normed(pass, name, x) : x;
}

/// RMSNorm of each head or of all, by the elements of its weight, if the model has one.
at::Tensor by_head_norm(const Pass& pass, const std::string& name, const at::Tensor& rows) {
  if (!has(pass, name)) return rows;
  const std::int64_t size = weight_of(pass, name + ".weight").numel();
  return rms_normed(pass, name, rows.view({rows.size(0), -1, size})).reshape_as(rows);
}

/// Queries or keys of block `number`, rotated by what that block has.
at::Tensor placed(const at::Tensor& rows, std::int64_t number, std::int64_t heads,
                  const ModelOptions& model) {
  if (!has_rope(model, number)) return rows;
  ModelOptions of_block = model;
  const bool own = model.kind == ModelKind::kOlmo3 || model.kind == ModelKind::kGemma3Text;
  if (own && has_window(model, number)) {
    of_block.rope_scaling = {};
    if (model.window_rope_theta > 0) of_block.rope_theta = model.window_rope_theta;
  }
  return rotated(rows, heads, of_block);
}

/// The products of `names`, which a model may have as one matrix `fused`, whose rows are in their order.
std::vector<at::Tensor> products(const Pass& pass, const std::vector<std::string>& names,
                                 const std::string& fused, const std::vector<std::int64_t>& widths,
                                 const at::Tensor& in) {
  if (!has(pass, fused)) return adapted(pass, names, in);
  return adapted(pass, {fused}, in)[0].split_with_sizes(widths, 1);
}

at::Tensor self_attention(std::int64_t number, const std::string& self, const at::Tensor& in,
                          const Pass& pass) {
  const ModelOptions& model = pass.model;
  const std::int64_t kv_width = model.kv_heads * head_size(model);
  const std::vector<at::Tensor> qkv =
      products(pass, {self + ".q_proj", self + ".k_proj", self + ".v_proj"}, self + ".qkv_proj",
               {model.heads * head_size(model), kv_width, kv_width}, in);
  const at::Tensor q = by_head_norm(pass, self + ".q_norm", qkv[0]);
  const at::Tensor k = by_head_norm(pass, self + ".k_norm", qkv[1]);
  const double divisor =
      static_cast<double>(model.query_pre_attn_scalar > 0 ? model.query_pre_attn_scalar : head_size(model));
  const double usual = 1 / std::sqrt(divisor);
  const Attention options{.heads = model.heads,
                          .kv_heads = model.kv_heads,
                          .scale = model.attention_multiplier > 0 ? model.attention_multiplier : usual,
                          .causal = true,
                          .window = has_window(model, number) ? model.window : 0};
  const at::Tensor attended = attention(placed(q, number, model.heads, model),
                                        placed(k, number, model.kv_heads, model), qkv[2], options);
  return adapted(pass, {self + ".o_proj"}, attended)[0];
}

at::Tensor feed_forward(const std::string& mlp, const at::Tensor& in, const Pass& pass) {
  const std::int64_t width = pass.model.intermediate_size;
  const std::vector<at::Tensor> gate_up =
      products(pass, {mlp + ".gate_proj", mlp + ".up_proj"}, mlp + ".gate_up_proj", {width, width}, in);
  const at::Tensor gate = pass.model.kind == ModelKind::kGemma3Text ? gelu_by_tanh(gate_up[0])
                                                                    : gate_up[0] * at::sigmoid(gate_up[0]);
  return adapted(pass, {mlp + ".down_proj"}, gate * gate_up[1])[0];
}

at::Tensor llama_block(std::int64_t number, const at::Tensor& x, const Pass& pass) {
  const std::string block = str("model.layers.", number);
  const std::string middle_norm = block + ".post_attention_layernorm";
  const std::string output_norm = block + ".post_feedforward_layernorm";
  const bool after = has(pass, output_norm);  // the norm in the middle is of what attention adds
  const double factor = pass.model.residual_multiplier;
  const at::Tensor attended =
      self_attention(number, block + ".self_attn", normed(pass, block + ".input_layernorm", x), pass);
  const at::Tensor middle = x + factor * (after ? rms_normed(pass, middle_norm, attended) : attended);
  const at::Tensor in = normed(pass, after ? block + ".pre_feedforward_layernorm" : middle_norm, middle);
  return middle + factor * normed(pass, output_norm, feed_forward(block + ".mlp", in, pass));
}

}  // namespace

at::Tensor llama_loss(const Pass& pass, const SampleBatch& sample) {
  const std::string head = pass.model.tie_embeddings ? "model.embed_tokens" : "lm_head";
  return sum_over_sequences(pass, sample, [&](const Pass& here, const at::Tensor& ids) {
    const ModelOptions& model = here.model;
    at::Tensor x = weight_of(here, "model.embed_tokens.weight").index_select(0, ids);
    if (model.kind == ModelKind::kGemma3Text)
      x = x * at::scalar_tensor(std::sqrt(static_cast<double>(model.hidden_size)), at::kFloat)
                  .to(x.scalar_type());
    x = x * model.embedding_multiplier;
    for (std::int64_t block = 0; block < model.layers; ++block) x = llama_block(block, x, here);
    return affine(here, head, rms_normed(here, "model.norm", x)) / model.logits_scaling;
  });
}

}  // namespace echelon::reference
