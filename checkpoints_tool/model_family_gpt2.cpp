#include "base/str.h"
#include "model_family.h"

namespace echelon::tool {
namespace {

void check_computed(const ModelConfig& config) {
  config.require_text("activation_function", "gelu_new", "gelu_new");
  config.require_flag("scale_attn_weights", true);
  config.require_flag("scale_attn_by_inverse_layer_idx", false);
  config.require_flag("add_cross_attention", false);
}

}  // namespace

ModelDescription describe_gpt2(const ModelConfig& config) {
  const std::int64_t hidden = config.size_or("n_embd", 768);
  const std::int64_t inner = config.size_or("n_inner", 4 * hidden);
  const std::int64_t vocab = config.size_or("vocab_size", 50257);
  const std::int64_t positions = config.size_or("n_positions", 1024);
  const std::int64_t layers = config.size_or("n_layer", 12, kMaxLayers);
  const std::int64_t heads = config.size_or("n_head", 12);
  const bool tie = config.flag_or("tie_word_embeddings", true);
  if (hidden % heads != 0) config.fail(str("n_head ", heads, " does not divide n_embd ", hidden));
  check_computed(config);

  ModelDescription model{.kind = "gpt2", .data_kind = "synthetic_tokens", .max_positions = positions};
  const auto add_norm = [&](const std::string& name) {
    model.add(name + ".weight", {hidden});
    model.add(name + ".bias", {hidden});
  };
  const auto add_product = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    model.add(name + ".weight", {in, out});
    model.add(name + ".bias", {out});
  };
  model.optional_prefix = "transformer.";
  model.add("transformer.wte.weight", {vocab, hidden});
  model.add("transformer.wpe.weight", {positions, hidden});
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = str("transformer.h.", i, '.');
    add_norm(layer + "ln_1");
    add_product(layer + "attn.c_attn", hidden, 3 * hidden);
    add_product(layer + "attn.c_proj", hidden, hidden);
    add_norm(layer + "ln_2");
    add_product(layer + "mlp.c_fc", hidden, inner);
    add_product(layer + "mlp.c_proj", inner, hidden);
  }
  add_norm("transformer.ln_f");
  if (tie) {
    model.tied.push_back({"lm_head.weight", "transformer.wte.weight"});
  } else {
    model.add("lm_head.weight", {vocab, hidden});
  }
  model.ignored = {".attn.bias", ".attn.masked_bias"};  // the causal mask
  model.recipe = str("model:\n  kind: gpt2\n  vocab_size: ", vocab, "\n  hidden_size: ", hidden,
                     "\n  intermediate_size: ", inner, "\n  layers: ", layers, "\n  heads: ", heads,
                     "\n  max_positions: ", positions,
                     "\n  norm_eps: ", number_text(config.real_or("layer_norm_epsilon", 1e-5)),
                     "\n  tie_embeddings: ", tie ? "true" : "false",
                     "\n  dropout: ", number_text(config.real_or("resid_pdrop", 0.1)), '\n');
  return model;
}

}  // namespace echelon::tool
