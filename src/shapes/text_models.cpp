#include "base/str.h"
#include "shapes/kinds.h"
#include "shapes/llama_family.h"

namespace echelon::shapes {
namespace {

void add_head(Layers& to, const ModelOptions& model, const char* head = "lm_head.") {
  if (!model.tie_embeddings)
    to.push_back({head, {}, {{"weight", {model.vocab_size, model.hidden_size}, {}, true}}});
}

/// Sublayer `number` of a T5 block: attention and the norm of its input.
void add_t5_attention(Tensors& to, int number, const char* kind, const ModelOptions& model) {
  const std::string layer = str("layer.", number, '.');
  const std::int64_t width = model.heads * head_size(model);
  for (const char* part : {"q", "k", "v"})
    to.push_back({str(layer, kind, '.', part, ".weight"), {width, model.hidden_size}});
  to.push_back({str(layer, kind, ".o.weight"), {model.hidden_size, width}});
  to.push_back({layer + "layer_norm.weight", {model.hidden_size}});
}

void add_t5_feed_forward(Tensors& to, int number, const ModelOptions& model) {
  const std::string layer = str("layer.", number, '.');
  const Dimensions inner{model.intermediate_size, model.hidden_size};
  if (model.feed_forward == FeedForward::kGatedGelu) {
    to.push_back({layer + "DenseReluDense.wi_0.weight", inner});
    to.push_back({layer + "DenseReluDense.wi_1.weight", inner});
  } else {
    to.push_back({layer + "DenseReluDense.wi.weight", inner});
  }
  to.push_back({layer + "DenseReluDense.wo.weight", {model.hidden_size, model.intermediate_size}});
  to.push_back({layer + "layer_norm.weight", {model.hidden_size}});
}

/// Encoder or decoder. Its first block holds the table of position biases that all blocks use.
void add_t5_stack(Layers& to, const std::string& stack, std::int64_t blocks, bool decoder,
                  const ModelOptions& model) {
  Tensors block;
  int number = 0;
  add_t5_attention(block, number++, "SelfAttention", model);
  if (decoder) add_t5_attention(block, number++, "EncDecAttention", model);
  add_t5_feed_forward(block, number, model);
  to.push_back({stack + ".block.", blocks, std::move(block)});
  to.push_back({stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.",
                {},
                {{"weight", {model.relative_buckets, model.heads}, {}, true}}});
  to.push_back({stack + ".final_layer_norm.", {}, {{"weight", {model.hidden_size}}}});
}

}  // namespace

Layers llama(const ModelOptions& model) {
  const LlamaFamily& family = *find_llama_family(model.kind);
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t inner = model.intermediate_size;
  const std::int64_t width = model.heads * head_size(model);
  const std::int64_t kv_width = model.kv_heads * head_size(model);
  Tensors block;
  if (family.block_norms != BlockNorms::kAfter) block.push_back({"input_layernorm.weight", {hidden}});
  if (family.fuses_products) {
    block.push_back(
        {"self_attn.qkv_proj.weight", {width + 2 * kv_width, hidden}, {width, kv_width, kv_width}});
  } else {
    block.push_back({"self_attn.q_proj.weight", {width, hidden}});
    block.push_back({"self_attn.k_proj.weight", {kv_width, hidden}});
    block.push_back({"self_attn.v_proj.weight", {kv_width, hidden}});
  }
  if (family.has_biases) {
    block.push_back({"self_attn.q_proj.bias", {width}});
    block.push_back({"self_attn.k_proj.bias", {kv_width}});
    block.push_back({"self_attn.v_proj.bias", {kv_width}});
  }
  if (family.query_key_norms != QueryKeyNorms::kNone) {
    const bool each = family.query_key_norms == QueryKeyNorms::kEachHead;
    block.push_back({"self_attn.q_norm.weight", {each ? head_size(model) : width}});
    block.push_back({"self_attn.k_norm.weight", {each ? head_size(model) : kv_width}});
  }
  block.push_back({"self_attn.o_proj.weight", {hidden, width}});
  block.push_back({"post_attention_layernorm.weight", {hidden}});
  if (family.block_norms == BlockNorms::kAround)
    block.push_back({"pre_feedforward_layernorm.weight", {hidden}});
  if (family.fuses_products) {
    block.push_back({"mlp.gate_up_proj.weight", {2 * inner, hidden}, {inner, inner}});
  } else {
    block.push_back({"mlp.gate_proj.weight", {inner, hidden}});
    block.push_back({"mlp.up_proj.weight", {inner, hidden}});
  }
  block.push_back({"mlp.down_proj.weight", {hidden, inner}});
  if (family.block_norms != BlockNorms::kBefore)
    block.push_back({"post_feedforward_layernorm.weight", {hidden}});
  Layers all{{"model.embed_tokens.", {}, {{"weight", {model.vocab_size, hidden}, {}, true}}},
             {"model.layers.", model.layers, std::move(block)},
             {"model.norm.", {}, {{"weight", {hidden}}}}};
  add_head(all, model);
  return all;
}

Layers gpt2(const ModelOptions& model) {
  const std::int64_t hidden = model.hidden_size;
  Tensors block;
  add_layer_norm(block, "ln_1", hidden);
  add_affine(block, "attn.c_attn", 3 * hidden, hidden).stacked = {hidden, hidden, hidden};
  add_affine(block, "attn.c_proj", hidden, hidden);
  add_layer_norm(block, "ln_2", hidden);
  add_affine(block, "mlp.c_fc", model.intermediate_size, hidden);
  add_affine(block, "mlp.c_proj", hidden, model.intermediate_size);
  Tensors final_norm;
  add_layer_norm(final_norm, "ln_f", hidden);
  Layers all{{"transformer.",
              {},
              {{"wte.weight", {model.vocab_size, hidden}, {}, true},
               {"wpe.weight", {model.max_positions, hidden}, {}, true}}},
             {"transformer.h.", model.layers, std::move(block)},
             {"transformer.", {}, std::move(final_norm)}};
  add_head(all, model);
  return all;
}

Layers gpt_neox(const ModelOptions& model) {
  const std::int64_t hidden = model.hidden_size;
  Tensors block;
  add_layer_norm(block, "input_layernorm", hidden);
  // Its rows are each head's query, key and value in turn, so they are no stacked matrices.
  add_affine(block, "attention.query_key_value", 3 * hidden, hidden);
  add_affine(block, "attention.dense", hidden, hidden);
  add_layer_norm(block, "post_attention_layernorm", hidden);
  add_affine(block, "mlp.dense_h_to_4h", model.intermediate_size, hidden);
  add_affine(block, "mlp.dense_4h_to_h", hidden, model.intermediate_size);
  Tensors final_norm;
  add_layer_norm(final_norm, "final_layer_norm", hidden);
  Layers all{{"gpt_neox.embed_in.", {}, {{"weight", {model.vocab_size, hidden}, {}, true}}},
             {"gpt_neox.layers.", model.layers, std::move(block)},
             {"gpt_neox.", {}, std::move(final_norm)}};
  add_head(all, model, "embed_out.");
  return all;
}

Layers t5(const ModelOptions& model) {
  Layers all{{"shared.", {}, {{"weight", {model.vocab_size, model.hidden_size}, {}, true}}}};
  add_t5_stack(all, "encoder", model.layers, false, model);
  add_t5_stack(all, "decoder", decoder_layers(model), true, model);
  add_head(all, model);
  return all;
}

}  // namespace echelon::shapes
