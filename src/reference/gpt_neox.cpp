#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"
#include "reference/models.h"

namespace echelon::reference {
namespace {

/// affine() with its adapter.
at::Tensor product(const Pass& pass, const std::string& name, const at::Tensor& x) {
  return adapted(pass, {name}, x)[0];
}

at::Tensor gpt_neox_block(std::int64_t number, const at::Tensor& x, const Pass& pass) {
  const ModelOptions& model = pass.model;
  const std::string block = str("gpt_neox.layers.", number);
  const std::string self = block + ".attention";
  const std::string mlp = block + ".mlp";
  const at::Tensor in = layer_normed(pass, block + ".input_layernorm", x);
  // A row has each head's query, key and value, one behind the other.
  const auto heads =
      product(pass, self + ".query_key_value", in).view({x.size(0), model.heads, -1}).chunk(3, 2);
  const auto rows = [&](std::size_t part) { return heads[part].reshape(x.sizes()); };
  const at::Tensor attended = attention(
      rotated(rows(0), model.heads, model), rotated(rows(1), model.heads, model), rows(2),
      {.heads = model.heads, .scale = 1 / std::sqrt(static_cast<double>(head_size(model))), .causal = true});
  const at::Tensor middle = x + dropped(pass, self, model.dropout, product(pass, self + ".dense", attended));
  const at::Tensor mlp_in =
      layer_normed(pass, block + ".post_attention_layernorm", model.use_parallel_residual ? x : middle);
  const at::Tensor up = product(pass, mlp + ".dense_h_to_4h", mlp_in);
  const at::Tensor inner = model.hidden_act == HiddenAct::kGelu ? exact_gelu(up) : gelu_by_tanh(up);
  return middle + dropped(pass, mlp, model.dropout, product(pass, mlp + ".dense_4h_to_h", inner));
}

}  // namespace

at::Tensor gpt_neox_loss(const Pass& pass, const SampleBatch& sample) {
  const std::string embedding = "gpt_neox.embed_in";
  const std::string head = pass.model.tie_embeddings ? embedding : "embed_out";
  return sum_over_sequences(pass, sample, [&](const Pass& here, const at::Tensor& ids) {
    at::Tensor x = dropped(here, embedding, here.model.dropout,
                           weight_of(here, embedding + ".weight").index_select(0, ids));
    for (std::int64_t block = 0; block < here.model.layers; ++block) x = gpt_neox_block(block, x, here);
    return affine(here, head, layer_normed(here, "gpt_neox.final_layer_norm", x));
  });
}

}  // namespace echelon::reference
