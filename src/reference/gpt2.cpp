#include <ATen/ATen.h>

#include <cmath>

#include "base/str.h"
#include "reference/models.h"

namespace echelon::reference {
namespace {

at::Tensor gpt2_block(std::int64_t number, const at::Tensor& x, const Pass& pass) {
  const ModelOptions& model = pass.model;
  const std::string block = str("transformer.h.", number);
  const std::int64_t width = model.hidden_size;
  const at::Tensor qkv = affine(pass, block + ".attn.c_attn", layer_normed(pass, block + ".ln_1", x));
  const at::Tensor attended =
      attention(qkv.narrow(1, 0, width).contiguous(), qkv.narrow(1, width, width).contiguous(),
                qkv.narrow(1, 2 * width, width).contiguous(),
                {.heads = model.heads,
                 .scale = 1 / std::sqrt(static_cast<double>(width / model.heads)),
                 .causal = true});
  const at::Tensor middle =
      x + dropped(pass, block + ".attn", model.dropout, affine(pass, block + ".attn.c_proj", attended));
  const at::Tensor inner = affine(pass, block + ".mlp.c_fc", layer_normed(pass, block + ".ln_2", middle));
  return middle + dropped(pass, block + ".mlp", model.dropout,
                          affine(pass, block + ".mlp.c_proj", gelu_by_tanh(inner)));
}

}  // namespace

at::Tensor gpt2_loss(const Pass& pass, const SampleBatch& sample) {
  const std::string embedding = "transformer.wte";
  const std::string head = pass.model.tie_embeddings ? embedding : "lm_head";
  return sum_over_sequences(pass, sample, [&](const Pass& here, const at::Tensor& ids) {
    const at::Tensor embedded = weight_of(here, embedding + ".weight").index_select(0, ids) +
                                weight_of(here, "transformer.wpe.weight").narrow(0, 0, ids.size(0));
    at::Tensor x = dropped(here, embedding, here.model.dropout, embedded);
    for (std::int64_t block = 0; block < here.model.layers; ++block) x = gpt2_block(block, x, here);
    return affine(here, head, layer_normed(here, "transformer.ln_f", x));
  });
}

}  // namespace echelon::reference
