#include "model_family.h"

#include <array>

#include "base/error.h"
#include "base/str.h"
#include "checkpoint/json.h"

namespace echelon::tool {
namespace {

using checkpoint::Json;

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 31;  // products of two fit 64 bits
constexpr std::uint64_t kMaxLayers = 10'000;

/// config.json with defaults: a member that is absent or null has the one of transformers.
class Config {
 public:
  Config(const Json& json, const std::string& what) : json_(json), what_(what) {}

  [[nodiscard]] bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  [[nodiscard]] std::int64_t size(const char* key, std::uint64_t max = kMaxSize) const {
    const std::uint64_t value = checkpoint::number(json_, key, max, what_);
    if (value == 0) fail(str("'", key, "' is 0"));
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] std::int64_t size_or(const char* key, std::int64_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  [[nodiscard]] double real_or(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_number()) fail(str("'", key, "' must be a number"));
    return json_[key].get<double>();
  }
  [[nodiscard]] bool flag_or(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_boolean()) fail(str("'", key, "' must be true or false"));
    return json_[key].get<bool>();
  }
  [[nodiscard]] std::string text_or(const char* key, const char* otherwise) const {
    return has(key) ? checkpoint::text(json_, key, what_) : otherwise;
  }
  [[nodiscard]] const Json& operator[](const char* key) const { return json_[key]; }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(Code::kCheckpoint, str(what_, ": ", problem));
  }
  /// The trainer's model computes something else.
  [[noreturn]] void differs(const std::string& what) const {
    fail(str(what, ", which the trainer's model does not compute: it cannot be imported"));
  }

 private:
  const Json& json_;
  const std::string& what_;
};

/// The number without the noise of printf("%f"): 500000, 1e-05.
std::string number_text(double value) {
  std::string text = Json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

double llama_rope_theta(const Config& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key)) continue;
    const Json& rope = config[key];
    if (!rope.is_object()) config.fail(str("'", key, "' must be an object"));
    for (const char* name : {"rope_type", "type"}) {
      if (rope.contains(name) && rope[name] != "default")
        config.differs(
            str("'", key, "' asks for rotary positions of the type ", printable(rope[name].dump())));
    }
    if (rope.contains("rope_theta")) {
      if (!rope["rope_theta"].is_number()) config.fail("'rope_theta' must be a number");
      return rope["rope_theta"].get<double>();
    }
  }
  return config.real_or("rope_theta", 10000.0);
}

ModelDescription llama(const Config& config) {
  const std::int64_t hidden = config.size("hidden_size");
  const std::int64_t inner = config.size("intermediate_size");
  const std::int64_t vocab = config.size("vocab_size");
  const std::int64_t layers = config.size("num_hidden_layers", kMaxLayers);
  const std::int64_t heads = config.size("num_attention_heads");
  const std::int64_t kv_heads = config.size_or("num_key_value_heads", heads);
  const bool tie = config.flag_or("tie_word_embeddings", false);
  if (hidden % heads != 0 || heads % kv_heads != 0)
    config.fail(str("heads do not divide: hidden_size ", hidden, ", num_attention_heads ", heads,
                    ", num_key_value_heads ", kv_heads));
  const std::int64_t head_dim = hidden / heads;
  if (config.size_or("head_dim", head_dim) != head_dim)
    config.differs(str("'head_dim' is not hidden_size / num_attention_heads (", head_dim, ")"));
  if (const std::string act = config.text_or("hidden_act", "silu"); act != "silu")
    config.differs(str("'hidden_act' is '", printable(act), "'"));
  for (const char* bias : {"attention_bias", "mlp_bias"}) {
    if (config.flag_or(bias, false)) config.differs(str("'", bias, "' is true"));
  }
  const double theta = llama_rope_theta(config);

  ModelDescription model{.kind = "llama"};
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    model.tensors.push_back({.name = name + ".weight", .shape = std::move(shape)});
  };
  add("model.embed_tokens", {vocab, hidden});
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = str("model.layers.", i, '.');
    add(layer + "input_layernorm", {hidden});
    add(layer + "self_attn.q_proj", {hidden, hidden});
    add(layer + "self_attn.k_proj", {kv_heads * head_dim, hidden});
    add(layer + "self_attn.v_proj", {kv_heads * head_dim, hidden});
    add(layer + "self_attn.o_proj", {hidden, hidden});
    add(layer + "post_attention_layernorm", {hidden});
    add(layer + "mlp.gate_proj", {inner, hidden});
    add(layer + "mlp.up_proj", {inner, hidden});
    add(layer + "mlp.down_proj", {hidden, inner});
  }
  add("model.norm", {hidden});
  if (tie) {
    model.tied.push_back({"lm_head.weight", "model.embed_tokens.weight"});
  } else {
    add("lm_head", {vocab, hidden});
  }
  model.ignored_endings = {".self_attn.rotary_emb.inv_freq"};
  model.recipe =
      str("model:\n  kind: llama\n  vocab_size: ", vocab, "\n  hidden_size: ", hidden,
          "\n  intermediate_size: ", inner, "\n  layers: ", layers, "\n  heads: ", heads,
          "\n  kv_heads: ", kv_heads, "\n  max_positions: ", config.size_or("max_position_embeddings", 2048),
          "\n  norm_eps: ", number_text(config.real_or("rms_norm_eps", 1e-6)),
          "\n  rope_theta: ", number_text(theta), "\n  tie_embeddings: ", tie ? "true" : "false", '\n');
  return model;
}

/// One row for each model that can be imported.
struct Family {
  const char* model_type;  ///< of config.json
  ModelDescription (*describe)(const Config& config);
};
constexpr std::array kFamilies{Family{"llama", llama}};

}  // namespace

ModelDescription describe_model(const std::string& source, const std::string& what) {
  const Json json = checkpoint::parse_json(source, what);
  if (!json.is_object()) throw Error(Code::kCheckpoint, str(what, ": expected a JSON object"));
  const Config config(json, what);
  const std::string type = checkpoint::text(json, "model_type", what);
  if (config.has("quantization_config")) config.fail("the weights are quantized; import the original ones");
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (type == family.model_type) return family.describe(config);
    known.emplace_back(family.model_type);
  }
  config.fail(str("model_type '", printable(type), "' cannot be imported; these can: ", join(known, ", ")));
}

}  // namespace echelon::tool
