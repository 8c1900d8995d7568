#include "recipe/model_presets.h"

#include <algorithm>

#include "base/str.h"
#include "recipe/keys/keys.h"
#include "recipe/yaml/writer.h"
#include "shapes/shapes.h"

namespace echelon::recipe {
namespace {

struct LlamaSize {
  std::int64_t vocabulary, hidden, intermediate, layers, heads, kv_heads, positions;
};

ModelPreset llama(const char* name, const char* what, const LlamaSize& size, double theta, bool tied,
                  ModelKind kind = ModelKind::kLlama, double norm_eps = ModelOptions{}.norm_eps) {
  return {name,
          what,
          {.kind = kind,
           .vocab_size = size.vocabulary,
           .hidden_size = size.hidden,
           .intermediate_size = size.intermediate,
           .layers = size.layers,
           .heads = size.heads,
           .kv_heads = size.kv_heads,
           .max_positions = size.positions,
           .norm_eps = norm_eps,
           .rope_theta = theta,
           .tie_embeddings = tied}};
}

std::vector<ModelPreset> llamas() {
  constexpr const char* k1b = "Llama 3.2 1B, rotary frequencies not scaled";
  constexpr const char* k3b = "Llama 3.2 3B, rotary frequencies not scaled";
  return {
      llama("llama_179m", "The Llama of the FSDP2 article", {50000, 768, 3072, 12, 12, 3, 2048}, 1e4, false),
      llama("llama_1b", k1b, {128256, 2048, 8192, 16, 32, 8, 8192}, 5e5, true),
      llama("llama_3b", k3b, {128256, 3072, 8192, 28, 24, 8, 8192}, 5e5, true),
      llama("llama_7b", "Llama 2 7B", {32000, 4096, 11008, 32, 32, 32, 4096}, 1e4, false),
      llama("llama_8b", "Llama 3 8B", {128256, 4096, 14336, 32, 32, 8, 8192}, 5e5, false),
      llama("llama_13b", "Llama 2 13B", {32000, 5120, 13824, 40, 40, 40, 4096}, 1e4, false),
      llama("llama_70b", "Llama 3 70B", {128256, 8192, 28672, 80, 64, 8, 8192}, 5e5, false),
  };
}

/// Llama 3.1 and 3.2: theta 500,000, frequencies stretched from 8,192 positions on.
ModelPreset llama3(const char* name, const char* what, const LlamaSize& size, double factor, bool tied) {
  ModelPreset preset = llama(name, what, size, 5e5, tied);
  preset.model.rope_scaling = {.kind = RopeKind::kLlama3, .factor = factor, .original_positions = 8192};
  return preset;
}

/// Heads have 128 elements whatever the width.
ModelPreset qwen3(const char* name, const char* what, const LlamaSize& size, bool tied) {
  ModelPreset preset = llama(name, what, size, 1e6, tied, ModelKind::kQwen3, 1e-6);
  preset.model.head_size = 128;
  return preset;
}

/// Every 4th block is without the window, and stretched from 8,192 positions on.
ModelPreset olmo3(const char* name, const char* what, const LlamaSize& size) {
  ModelPreset preset = llama(name, what, size, 5e5, false, ModelKind::kOlmo3, 1e-6);
  preset.model.window = 4096;
  preset.model.full_attention_every = 4;
  preset.model.rope_scaling = {.kind = RopeKind::kYarn, .factor = 8, .original_positions = 8192};
  return preset;
}

ModelPreset granite(const char* name, const char* what, const LlamaSize& size, double logits_scaling) {
  ModelPreset preset = llama(name, what, size, 1e7, true, ModelKind::kGranite);
  preset.model.embedding_multiplier = 12;
  preset.model.residual_multiplier = 0.22;
  preset.model.attention_multiplier = 1.0 / static_cast<double>(head_size(preset.model));
  preset.model.logits_scaling = logits_scaling;
  return preset;
}

ModelPreset phi(const char* name, const char* what, const LlamaSize& size, double theta,
                std::int64_t window) {
  ModelPreset preset = llama(name, what, size, theta, false, ModelKind::kPhi3);
  preset.model.window = window;
  return preset;
}

/// Every 6th block is without the window.
ModelPreset gemma3(const char* name, const char* what, const LlamaSize& size) {
  ModelPreset preset = llama(name, what, size, 1e6, true, ModelKind::kGemma3Text, 1e-6);
  preset.model.head_size = 256;
  preset.model.window = 512;
  preset.model.full_attention_every = 6;
  preset.model.window_rope_theta = 1e4;
  preset.model.query_pre_attn_scalar = 256;
  return preset;
}

/// A quarter of each head turns.
ModelPreset pythia(const char* name, const char* what, const LlamaSize& size) {
  ModelPreset preset = llama(name, what, size, 1e4, false, ModelKind::kGptNeoX);
  preset.model.kv_heads = ModelOptions{}.kv_heads;
  preset.model.partial_rotary_factor = 0.25;
  return preset;
}

std::vector<ModelPreset> gpt_neoxes() {
  const auto size = [](std::int64_t vocabulary, std::int64_t hidden, std::int64_t layers,
                       std::int64_t heads) {
    return LlamaSize{vocabulary, hidden, 4 * hidden, layers, heads, heads, 2048};
  };
  ModelPreset neox = pythia("gpt_neox_20b", "GPT-NeoX 20B", size(50432, 6144, 44, 64));
  neox.model.hidden_act = HiddenAct::kGeluFast;
  return {
      pythia("pythia_70m", "Pythia 70M", size(50304, 512, 6, 8)),
      pythia("pythia_160m", "Pythia 160M", size(50304, 768, 12, 12)),
      pythia("pythia_410m", "Pythia 410M", size(50304, 1024, 24, 16)),
      pythia("pythia_1b", "Pythia 1B", size(50304, 2048, 16, 8)),
      pythia("pythia_1_4b", "Pythia 1.4B", size(50304, 2048, 24, 16)),
      pythia("pythia_2_8b", "Pythia 2.8B", size(50304, 2560, 32, 32)),
      pythia("pythia_6_9b", "Pythia 6.9B", size(50432, 4096, 32, 32)),
      pythia("pythia_12b", "Pythia 12B", size(50688, 5120, 36, 40)),
      neox,
  };
}

std::vector<ModelPreset> newer_families() {
  constexpr auto kOlmo2 = ModelKind::kOlmo2;
  ModelPreset smollm3 = llama("smollm3_3b", "SmolLM3 3B", {128256, 2048, 11008, 36, 16, 4, 65536}, 5e6, true,
                              ModelKind::kSmolLm3, 1e-6);
  smollm3.model.no_rope_every = 4;
  ModelPreset phi4_mini = phi("phi4_mini", "Phi-4-mini, rotary frequencies not scaled",
                              {200064, 3072, 8192, 32, 24, 8, 4096}, 1e4, 0);
  phi4_mini.model.partial_rotary_factor = 0.75;
  phi4_mini.model.tie_embeddings = true;
  return {
      llama("olmo2_1b", "OLMo 2 1B", {100352, 2048, 8192, 16, 16, 16, 4096}, 5e5, false, kOlmo2, 1e-6),
      llama("olmo2_7b", "OLMo 2 7B", {100352, 4096, 11008, 32, 32, 32, 4096}, 5e5, false, kOlmo2, 1e-6),
      llama("olmo2_13b", "OLMo 2 13B", {100352, 5120, 13824, 40, 40, 40, 4096}, 5e5, false, kOlmo2, 1e-6),
      olmo3("olmo3_7b", "OLMo 3 7B", {100278, 4096, 11008, 32, 32, 32, 65536}),
      olmo3("olmo3_32b", "OLMo 3 32B", {100278, 5120, 27648, 64, 40, 8, 65536}),
      smollm3,
      granite("granite_3_3_2b", "Granite 3.3 2B", {49159, 2048, 8192, 40, 32, 8, 131072}, 8),
      granite("granite_3_3_8b", "Granite 3.3 8B", {49159, 4096, 12800, 40, 32, 8, 131072}, 16),
      phi("phi3_mini_4k", "Phi-3 mini 4k", {32064, 3072, 8192, 32, 32, 32, 4096}, 1e4, 2047),
      phi("phi4", "Phi-4", {100352, 5120, 17920, 40, 40, 10, 16384}, 2.5e5, 0),
      phi4_mini,
      gemma3("gemma3_270m", "Gemma 3 270M", {262144, 640, 2048, 18, 4, 1, 32768}),
      gemma3("gemma3_1b", "Gemma 3 1B", {262144, 1152, 6912, 26, 4, 1, 32768}),
  };
}

std::vector<ModelPreset> llama_families() {
  constexpr auto kQwen2 = ModelKind::kQwen2;
  return {
      llama("smollm2_135m", "SmolLM2 135M", {49152, 576, 1536, 30, 9, 3, 8192}, 1e5, true),
      llama("smollm2_1_7b", "SmolLM2 1.7B", {49152, 2048, 8192, 24, 32, 32, 8192}, 1.3e5, true),
      llama3("llama_3_2_1b", "Llama 3.2 1B", {128256, 2048, 8192, 16, 32, 8, 131072}, 32, true),
      llama3("llama_3_2_3b", "Llama 3.2 3B", {128256, 3072, 8192, 28, 24, 8, 131072}, 32, true),
      llama3("llama_3_1_8b", "Llama 3.1 8B", {128256, 4096, 14336, 32, 32, 8, 131072}, 8, false),
      llama("mistral_7b", "Mistral 7B v0.3", {32768, 4096, 14336, 32, 32, 8, 32768}, 1e6, false,
            ModelKind::kMistral),
      llama("qwen2_5_0_5b", "Qwen2.5 0.5B", {151936, 896, 4864, 24, 14, 2, 32768}, 1e6, true, kQwen2, 1e-6),
      llama("qwen2_5_1_5b", "Qwen2.5 1.5B", {151936, 1536, 8960, 28, 12, 2, 32768}, 1e6, true, kQwen2, 1e-6),
      llama("qwen2_5_7b", "Qwen2.5 7B", {152064, 3584, 18944, 28, 28, 4, 32768}, 1e6, false, kQwen2, 1e-6),
      qwen3("qwen3_0_6b", "Qwen3 0.6B", {151936, 1024, 3072, 28, 16, 8, 40960}, true),
      qwen3("qwen3_1_7b", "Qwen3 1.7B", {151936, 2048, 6144, 28, 16, 8, 40960}, true),
      qwen3("qwen3_4b", "Qwen3 4B", {151936, 2560, 9728, 36, 32, 8, 40960}, true),
      qwen3("qwen3_8b", "Qwen3 8B", {151936, 4096, 12288, 36, 32, 8, 40960}, false),
      qwen3("qwen3_14b", "Qwen3 14B", {151936, 5120, 17408, 40, 40, 8, 40960}, false),
      qwen3("qwen3_32b", "Qwen3 32B", {151936, 5120, 25600, 64, 64, 8, 40960}, false),
  };
}

/// The feed-forward width is four times the hidden size, and the output head shares the embedding.
ModelPreset gpt(const char* name, const char* what, std::int64_t layers, std::int64_t hidden,
                std::int64_t heads) {
  return {name,
          what,
          {.kind = ModelKind::kGpt2,
           .vocab_size = 50257,
           .hidden_size = hidden,
           .intermediate_size = 4 * hidden,
           .layers = layers,
           .heads = heads,
           .max_positions = 1024,
           .tie_embeddings = true,
           .dropout = 0.1}};
}

/// These presets measure speed: random tokens from a vocabulary of 50,000, no dropout.
ModelPreset large_gpt(const char* name, const char* what, std::int64_t layers, std::int64_t hidden,
                      std::int64_t heads) {
  ModelPreset preset = gpt(name, what, layers, hidden, heads);
  preset.model.vocab_size = 50000;
  preset.model.max_positions = 2048;
  preset.model.dropout = 0.0;
  return preset;
}

std::vector<ModelPreset> gpts() {
  return {
      gpt("gpt2", "GPT-2", 12, 768, 12),
      gpt("gpt2_medium", "GPT-2 medium", 24, 1024, 16),
      gpt("gpt2_large", "GPT-2 large", 36, 1280, 20),
      gpt("gpt2_xl", "GPT-2 XL (1.5B)", 48, 1600, 25),
      large_gpt("gpt_175b", "GPT 175B of the blog that introduced FSDP", 96, 12288, 96),
      large_gpt("gpt_1t", "GPT 1T of the same", 128, 25600, 160),
  };
}

struct T5Size {
  std::int64_t hidden, intermediate, layers, heads, head_size;
};

ModelPreset t5(const char* name, const char* what, const T5Size& size, bool gated) {
  return {name,
          what,
          {.kind = ModelKind::kT5,
           .vocab_size = 32128,
           .hidden_size = size.hidden,
           .intermediate_size = size.intermediate,
           .layers = size.layers,
           .heads = size.heads,
           .norm_eps = 1e-6,
           .tie_embeddings = !gated,
           .dropout = 0.1,
           .decoder_layers = size.layers,
           .head_size = size.head_size,
           .feed_forward = gated ? FeedForward::kGatedGelu : FeedForward::kRelu}};
}

std::vector<ModelPreset> t5s() {
  return {
      t5("t5_small", "T5 small", {512, 2048, 6, 8, 64}, false),
      t5("t5_base", "T5 base", {768, 3072, 12, 12, 64}, false),
      t5("t5_large", "T5 large", {1024, 4096, 24, 16, 64}, false),
      t5("t5_3b", "T5 3B", {1024, 16384, 24, 32, 128}, false),
      t5("t5_11b", "T5 11B", {1024, 65536, 24, 128, 128}, false),
      t5("t5_v1_1_small", "T5 v1.1 small", {512, 1024, 8, 6, 64}, true),
      t5("t5_v1_1_base", "T5 v1.1 base", {768, 2048, 12, 12, 64}, true),
      t5("t5_v1_1_large", "T5 v1.1 large", {1024, 2816, 24, 16, 64}, true),
      t5("t5_v1_1_xl", "T5 v1.1 XL", {2048, 5120, 24, 32, 64}, true),
      t5("t5_v1_1_xxl", "T5 v1.1 XXL", {4096, 10240, 24, 64, 64}, true),
  };
}

/// The presets differ in depth only. Source: github.com/lessw2020/transformer_framework,
/// config/deepvit_config.py, which defines the models measured in the PyTorch and AWS blog.
ModelPreset deepvit(const char* name, const char* what, std::int64_t layers) {
  return {name,
          what,
          {.kind = ModelKind::kDeepVit,
           .hidden_size = 1024,
           .intermediate_size = 2048,
           .layers = layers,
           .heads = 16,
           .dropout = 0.1,
           .image_size = 256,
           .patch_size = 32}};
}

std::vector<ModelPreset> image_models() {
  return {
      {"vit_base", "ViT-B/16", {.kind = ModelKind::kVit, .norm_eps = 1e-12}},
      {"vit_large",
       "ViT-L/16",
       {.kind = ModelKind::kVit,
        .hidden_size = 1024,
        .intermediate_size = 4096,
        .layers = 24,
        .heads = 16,
        .norm_eps = 1e-12}},
      deepvit("deepvit_500m", "DeepViT 500M of the PyTorch and AWS blog's framework", 59),
      deepvit("deepvit_1b", "DeepViT 1B of the same", 118),
      deepvit("deepvit_2b", "DeepViT 2B of the same", 236),
      deepvit("deepvit_3b", "DeepViT 3B of the same", 357),
      deepvit("deepvit_8b", "DeepViT 8B of the same, the one the blog reports on", 952),
      {"mnist_cnn",
       "The network of the MNIST tutorials",
       {.kind = ModelKind::kCnn, .dropout = 0.5, .image_size = 28, .channels = 1, .classes = 10}},
  };
}

/// The values that differ from the defaults: "hidden_size 4096, layers 32".
std::string sizes_of(const ModelPreset& preset) {
  constexpr std::string_view kSection = "model.";
  Recipe recipe;
  recipe.model = preset.model;
  const Recipe defaults;
  std::vector<std::string> sizes;
  for (const Key& key : keys()) {
    if (!key.path.starts_with(kSection) || key.path == "model.kind") continue;
    const std::string value = written(key, recipe);
    if (value != written(key, defaults))
      sizes.push_back(str('`', key.path.substr(kSection.size()), "` ", value));
  }
  return sizes.empty() ? "the defaults" : join(sizes, ", ");
}

}  // namespace

const std::vector<ModelPreset>& model_presets() {
  static const std::vector<ModelPreset> table = [] {
    std::vector<ModelPreset> all;
    for (const std::vector<ModelPreset>& part :
         {llamas(), llama_families(), newer_families(), gpts(), gpt_neoxes(), t5s(), image_models()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return table;
}

const ModelPreset* find_model_preset(std::string_view name) {
  const auto& table = model_presets();
  const auto found = std::ranges::find(table, name, &ModelPreset::name);
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> presets_of(ModelKind kind) {
  std::vector<std::string> names;
  for (const ModelPreset& preset : model_presets()) {
    if (preset.model.kind == kind) names.push_back(preset.name);
  }
  return names;
}

std::string preset_problem(const ModelPreset& preset, std::optional<ModelKind> kind) {
  if (!kind || *kind == preset.model.kind) return "";
  return str("model.preset is ", preset.name, ", a ", word_of(preset.model.kind), ", but model.kind is ",
             word_of(*kind), "; remove model.kind, or name a preset of ", word_of(*kind), ": ",
             join(presets_of(*kind), ", "));
}

std::string model_presets_markdown() {
  std::string out =
      "| preset | `kind` | parameters | keys beside the defaults | model |\n|---|---|---|---|---|\n";
  for (const ModelPreset& preset : model_presets()) {
    const auto parameters = static_cast<std::uint64_t>(parameter_count(preset.model).value_or(0));
    out += str("| `", preset.name, "` | `", word_of(preset.model.kind), "` | ", human_count(parameters),
               " | ", sizes_of(preset), " | ", preset.what, " |\n");
  }
  return out;
}

}  // namespace echelon::recipe
