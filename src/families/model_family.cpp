#include "families/model_family.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/str.h"
#include "shapes/llama_family.h"
#include "shapes/shapes.h"

namespace echelon::families {
namespace {

using checkpoint::Json;

/// One row for each model that can be imported.
struct Family {
  std::string_view model_type;  ///< of config.json
  void (*describe)(ModelConfig& config, const HasTensor& has_tensor, ModelDescription& model);
  Json (*config)(const ModelOptions& model);
  NameEndings transposed;
};

const std::vector<Family>& families() {
  static const std::vector<Family> rows = [] {
    std::vector<Family> all;
    for (const LlamaFamily& family : kLlamaFamilies)
      all.push_back({word_of(family.kind), describe_llama, llama_config, {}});
    all.push_back({"gpt2", describe_gpt2, gpt2_config, {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"}});
    all.push_back({"gpt_neox", describe_gpt_neox, gpt_neox_config, {}});
    all.push_back({"t5", describe_t5, t5_config, {}});
    return all;
  }();
  return rows;
}

/// A value as recipes write it.
template <class Value>
std::string written(const Value& value) {
  if constexpr (HasWords<Value>) {
    return std::string(word_of(value));
  } else if constexpr (std::is_same_v<Value, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
    return str('[', join(mapped(value, number_text), ", "), ']');
  } else {
    return number_text(static_cast<double>(value));
  }
}

/// The lines of a recipe's section.
struct Lines {
  std::string text;
  template <class Value, class... More>
  void add(const char* key, const Value& value, const More&... more) {
    text += str("  ", key, ": ", written(value), '\n');
    if constexpr (sizeof...(more) > 0) add(more...);
  }
  void add_unless(double unset, const char* key, const auto& value) {
    if (static_cast<double>(value) != unset) add(key, value);
  }
};

void add_rope(const ModelOptions& model, Lines& lines) {
  lines.add("rope_theta", model.rope_theta);
  lines.add_unless(0, "window_rope_theta", model.window_rope_theta);
  lines.add_unless(1, "partial_rotary_factor", model.partial_rotary_factor);
  const RopeScalingOptions& scaling = model.rope_scaling;
  if (scaling.kind == RopeKind::kDefault) return;
  lines.text += "  rope_scaling:\n";
  lines.add("  kind", scaling.kind);
  if (scaling.kind == RopeKind::kLongRope)
    lines.add("  short_factor", scaling.short_factor, "  long_factor", scaling.long_factor);
  else
    lines.add("  factor", scaling.factor);
  lines.add_unless(0, "  original_positions", scaling.original_positions);
  if (scaling.kind == RopeKind::kLlama3)
    lines.add("  low_freq_factor", scaling.low_freq_factor, "  high_freq_factor", scaling.high_freq_factor);
  if (scaling.kind == RopeKind::kYarn)
    lines.add("  beta_fast", scaling.beta_fast, "  beta_slow", scaling.beta_slow, "  attention_factor",
              scaling.attention_factor, "  truncate", scaling.truncate);
}

/// The section `model`, with the keys that its kind uses.
std::string recipe_of(const ModelOptions& model) {
  const bool llama = find_llama_family(model.kind) != nullptr;
  const bool neox = model.kind == ModelKind::kGptNeoX;
  const bool t5 = model.kind == ModelKind::kT5;
  Lines lines{"model:\n"};
  lines.add("kind", model.kind, "vocab_size", model.vocab_size, "hidden_size", model.hidden_size,
            "intermediate_size", model.intermediate_size, "layers", model.layers, "heads", model.heads);
  if (llama) lines.add("kv_heads", model.kv_heads);
  if (llama && model.head_size * model.heads != model.hidden_size) lines.add("head_size", model.head_size);
  if (!t5) lines.add("max_positions", model.max_positions);
  lines.add("norm_eps", model.norm_eps);
  if (llama || neox) add_rope(model, lines);
  lines.add_unless(0, "window", model.window);
  lines.add_unless(0, "window_from_layer", model.window_from_layer);
  lines.add_unless(0, "full_attention_every", model.full_attention_every);
  lines.add_unless(0, "query_pre_attn_scalar", model.query_pre_attn_scalar);
  lines.add_unless(0, "no_rope_every", model.no_rope_every);
  if (model.kind == ModelKind::kGranite)
    lines.add("embedding_multiplier", model.embedding_multiplier, "residual_multiplier",
              model.residual_multiplier, "attention_multiplier", model.attention_multiplier, "logits_scaling",
              model.logits_scaling);
  if (neox) lines.add("use_parallel_residual", model.use_parallel_residual, "hidden_act", model.hidden_act);
  lines.add("tie_embeddings", model.tie_embeddings);
  if (!llama) lines.add("dropout", model.dropout);
  if (t5)
    lines.add("decoder_layers", model.decoder_layers, "head_size", model.head_size, "feed_forward",
              model.feed_forward, "relative_buckets", model.relative_buckets, "relative_max_distance",
              model.relative_max_distance);
  return lines.text;
}

const Family* find_family(std::string_view type) {
  for (const Family& family : families()) {
    if (type == family.model_type) return &family;
  }
  return nullptr;
}

Json image_config(const ModelOptions& model) {
  Json config{{"image_size", model.image_size}, {"num_channels", model.channels}};
  if (model.kind != ModelKind::kCnn)
    config.update({{"hidden_size", model.hidden_size},
                   {"intermediate_size", model.intermediate_size},
                   {"num_hidden_layers", model.layers},
                   {"num_attention_heads", model.heads},
                   {"layer_norm_eps", model.norm_eps},
                   {"patch_size", model.patch_size}});
  if (model.kind != ModelKind::kVit) {  // transformers has no such model
    config.update({{"dropout", model.dropout}, {"num_labels", model.classes}});
    return config;
  }
  config.update({{"architectures", {"ViTForImageClassification"}},
                 {"hidden_act", "gelu"},
                 {"hidden_dropout_prob", model.dropout},
                 {"attention_probs_dropout_prob", 0.0},
                 {"initializer_range", model.init_std},
                 {"qkv_bias", true}});
  for (std::int64_t i = 0; i < model.classes; ++i) {
    config["id2label"][std::to_string(i)] = str("LABEL_", i);
    config["label2id"][str("LABEL_", i)] = i;
  }
  return config;
}

}  // namespace

bool has_ending(const std::string& name, const NameEndings& endings) {
  return std::ranges::any_of(endings, [&](const std::string& ending) { return name.ends_with(ending); });
}

void require_pairs(const ModelConfig& config, const ModelOptions& model) {
  const std::int64_t turned = rotary_size(model);
  if (!config.is_import() || (turned > 0 && turned % 2 == 0 && head_size(model) % 2 == 0)) return;
  const std::string part = turned == head_size(model) ? "" : str(", of which ", turned, " are rotated");
  config.fail(str("the head size is ", head_size(model), part, "; rotary positions need an even one"));
}

std::string number_text(double value) {
  std::string text = Json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

void ModelDescription::list_tensors(const ModelOptions& model) {
  kind = model.kind;
  options = model;
  for (TensorShape& tensor : tensors_of(model)) {
    if (has_ending(tensor.name, transposed)) std::ranges::reverse(tensor.dimensions);
    tensors.push_back({.name = std::move(tensor.name), .shape = std::move(tensor.dimensions)});
  }
}

bool ModelDescription::is_shared(const std::string& name, const HasTensor& has_tensor) const {
  return std::ranges::any_of(tied,
                             [&](const Tied& one) { return one.same_as == name && !has_tensor(one.name); });
}

void ModelDescription::tell_of_training() const {
  if (attention_dropout > 0)
    log::warn(str("config.json states a dropout of ", attention_dropout,
                  " for attention probabilities; training goes without it"));
}

std::string ModelDescription::whole_recipe() const {
  constexpr std::int64_t kSequence = 512;
  const bool pairs = takes_pairs(kind);  // of any length
  return str("# An imported model. Its data is synthetic: replace it before training.\n", recipe,
             "data:\n  kind: ", pairs ? "synthetic_pairs" : "synthetic_tokens",
             "\n  seq_len: ", pairs ? kSequence : std::min(kSequence, longest_sequence(options)), '\n');
}

ModelDescription describe_model(const std::string& source, const std::string& what, Purpose purpose,
                                const HasTensor& has_tensor) {
  Json json = checkpoint::parse_json(source, what);
  if (!json.is_object()) throw Error(Code::kCheckpoint, what, ": expected a JSON object");
  const std::string type = checkpoint::text(json, "model_type", what);
  ModelConfig config(std::move(json), what, purpose);
  if (config.has("quantization_config")) config.fail("the weights are quantized; import the original ones");
  if (const Family* family = find_family(type)) {
    ModelDescription model{.transposed = family->transposed};
    family->describe(config, has_tensor, model);
    model.recipe = recipe_of(model.options);
    return model;
  }
  const auto known = mapped<std::string>(families(), &Family::model_type);
  config.fail(str("model_type '", printable(type), "' cannot be ",
                  config.is_import() ? "imported" : "exported", "; supported types: ", join(known, ", "),
                  config.is_import()
                      ? ""
                      : "; `echelon-ckpt consolidate CKPT --to safetensors` writes its weights, "
                        "with --optimizer also the averaged ones"));
}

std::string hugging_face_config(const ModelOptions& model) {
  const Family* family = find_family(word_of(model.kind));
  Json config = family != nullptr ? family->config(model) : image_config(model);
  config["model_type"] = word_of(model.kind);
  if (family != nullptr) config["tie_word_embeddings"] = model.tie_embeddings;
  // transformers 5 reads dtype, and 4 torch_dtype.
  if (config.contains("architectures")) config["dtype"] = config["torch_dtype"] = "float32";
  return checkpoint::canonical_text(config);
}

NameEndings transposed_endings(const std::string& config) {
  const Json json = read_foreign_json(config).value;
  if (!json.is_object() || !json.contains("model_type") || !json["model_type"].is_string()) return {};
  const Family* family = find_family(json["model_type"].get<std::string>());
  return family == nullptr ? NameEndings() : family->transposed;
}

}  // namespace echelon::families
