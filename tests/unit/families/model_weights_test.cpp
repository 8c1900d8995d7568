#include "families/model_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/half.h"
#include "families/safetensors.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon::families {
namespace {

constexpr const char* kConfig = R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 2,
  "n_positions": 6, "vocab_size": 11})";

/// What element `i` of a tensor's file is: every value fits bf16.
float value_of(const std::string& tensor, std::uint64_t i) {
  return static_cast<float>((std::hash<std::string>()(tensor) + i * 7) % 251);
}

/// A GPT-2 in bf16. Its matrices lie transposed in the file.
void write_folder(const std::filesystem::path& folder) {
  std::ofstream(folder / "config.json") << kConfig;
  const ModelDescription model = describe_model(kConfig, "config.json", Purpose::kImport, {});
  std::vector<SafetensorsEntry> entries;
  for (const checkpoint::TensorInfo& tensor : model.tensors) {
    std::uint64_t count = 1;
    for (const std::int64_t size : tensor.shape) count *= static_cast<std::uint64_t>(size);
    entries.push_back({tensor.name, DType::kBF16, tensor.shape, count * 2});
  }
  const SafetensorsLayout layout = lay_out_safetensors(entries);
  std::string file(layout.file_bytes, '\0');
  file.replace(0, layout.head.size(), layout.head);
  for (std::size_t t = 0; t < entries.size(); ++t) {
    for (std::uint64_t i = 0; i < entries[t].bytes / 2; ++i) {
      const std::uint16_t value = float_to_bf16(value_of(entries[t].name, i));
      std::memcpy(file.data() + layout.offsets[t] + i * 2, &value, 2);
    }
  }
  std::ofstream(folder / "model.safetensors", std::ios::binary) << file;
}

/// A Llama with these members besides.
std::string small_llama(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "vocab_size": 10,
             "num_hidden_layers": 1, "num_attention_heads": 2)" +
         more + "}";
}

/// How the description of a model is refused, or "accepted".
std::string refusal_of(const std::string& config, Purpose purpose = Purpose::kImport) {
  return test::refusal(Code::kCheckpoint, [&] { return describe_model(config, "config.json", purpose, {}); });
}

TEST(ModelDescription, TakesWhatPublishedFilesStateBesideTheModel) {
  // As SmolLM2 of 135 M parameters has it.
  const std::string model =
      R"({"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 576,
          "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192,
          "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
          "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 100000,
          "tie_word_embeddings": true, "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
          "cache_implementation": "hybrid", "vocab_size": 49152, "rope_interleaved": )";
  EXPECT_EQ(describe_model(model + "false}", "config.json", Purpose::kImport, {}).kind, ModelKind::kLlama);
  EXPECT_MENTIONS(refusal_of(model + "true}"), "'rope_interleaved' is true");
  // As GPT-2 medium and Llama 1 have them.
  const std::string gpt2(kConfig);
  EXPECT_EQ(refusal_of(gpt2.substr(0, gpt2.size() - 1) +
                       R"(, "n_ctx": 1024, "n_special": 0, "predict_special_tokens": true})"),
            "accepted");
  EXPECT_EQ(refusal_of(small_llama(R"(, "max_sequence_length": 2048)")), "accepted");
  const std::string longer = R"(, "max_position_embeddings": 4096, "max_sequence_length": )";
  for (const char* length : {"4096", "2048"})
    EXPECT_EQ(refusal_of(small_llama(longer + length)), "accepted") << length;
  EXPECT_MENTIONS(refusal_of(small_llama(longer + "1024")), "'max_sequence_length' is 1024");
}

TEST(ModelDescription, ListsNoMoreLayersThanARecipeMayHave) {
  const std::string deep =
      R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_positions": 6, "vocab_size": 11, "n_layer": )";
  for (const Purpose purpose : {Purpose::kImport, Purpose::kExport}) {
    EXPECT_MENTIONS(refusal_of(deep + "10001}", purpose), "'n_layer' must be a whole number from 0 to 10000");
  }
}

TEST(ModelDescription, WarnsOfDropoutThatTrainingLacks) {
  const auto warning = [](const std::string& config) {
    return test::said_by(
        [&] { describe_model(config, "config.json", Purpose::kImport, {}).tell_of_training(); });
  };
  EXPECT_MENTIONS(warning(small_llama(R"(, "attention_dropout": 0.25)")),
                  "a dropout of 0.25 for attention probabilities; training goes without it");
  EXPECT_EQ(warning(small_llama("")), "");
  const std::string neox = R"({"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 4, )";
  EXPECT_MENTIONS(warning(neox + R"("num_hidden_layers": 1, "attention_dropout": 0.5})"), "dropout of 0.5 ");
  const std::string gpt2(kConfig);
  EXPECT_MENTIONS(warning(gpt2), "dropout of 0.1 ") << "transformers' default";
  EXPECT_EQ(warning(gpt2.substr(0, gpt2.size() - 1) + R"(, "attn_pdrop": 0})"), "");
  EXPECT_MENTIONS(warning(R"({"model_type": "t5", "dropout_rate": 0.2})"), "dropout of 0.2 ");
  EXPECT_MENTIONS(refusal_of(small_llama(R"(, "attention_dropout": 1)")),
                  "'attention_dropout' is 1; expected a number from 0 to less than 1");
}

TEST(ModelDescription, OfNoFamilyIsRefusedForWhatItIsWanted) {
  const std::string vit = R"({"model_type": "vit"})";
  EXPECT_MENTIONS(refusal_of(vit), "model_type 'vit' cannot be imported; supported types: ");
  EXPECT_MENTIONS(refusal_of(vit, Purpose::kExport), "model_type 'vit' cannot be exported; supported types: ",
                  "consolidate CKPT --to safetensors");
}

using WeightFiles = test::InTempDir;
TEST_F(WeightFiles, AreReadInAnyStretchInTheTypeThatIsWanted) {
  write_folder(dir.path());
  const ModelWeights weights(dir.path(), "cannot read");
  WeightReader read(weights);
  std::mt19937 random(3);
  int transposed = 0;
  for (const StoredWeight& weight : weights.weights()) {
    EXPECT_EQ(weights.find(weight.info.name), &weight);
    const std::uint64_t count = weight.source->bytes / 2;
    const auto rows = static_cast<std::uint64_t>(weight.info.shape.front());
    const std::uint64_t columns = count / rows;
    const auto expected = [&](std::uint64_t i) {
      return value_of(weight.info.name, weight.transposed ? i % columns * rows + i / columns : i);
    };
    transposed += weight.transposed ? 1 : 0;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t begin = random() % count;
      std::vector<float> values(1 + random() % (count - begin));
      read(weight, begin, DType::kF32, std::as_writable_bytes(std::span(values)));
      for (std::uint64_t j = 0; j < values.size(); ++j)
        ASSERT_EQ(values[j], expected(begin + j)) << weight.info.name << " " << begin << " " << j;
      std::vector<std::uint16_t> halves(values.size());
      read(weight, begin, DType::kBF16, std::as_writable_bytes(std::span(halves)));
      ASSERT_EQ(bf16_to_float(halves.back()), values.back());
    }
  }
  EXPECT_EQ(transposed, 4);
  EXPECT_EQ(weights.find("lm_head.weight"), nullptr) << "it is tied";
}

TEST_F(WeightFiles, OfOtherValuesHaveAnotherFingerprint) {
  write_folder(dir.path());
  const std::uint32_t before = ModelWeights(dir.path(), "cannot read").fingerprint();
  EXPECT_EQ(ModelWeights(dir.path(), "cannot read").fingerprint(), before);
  std::fstream file(dir.path() / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-3, std::ios::end);
  file.put('\x01');
  file.close();
  EXPECT_NE(ModelWeights(dir.path(), "cannot read").fingerprint(), before);
}

TEST_F(WeightFiles, MayLackTiedWeightsThatTheIndexLists) {
  write_folder(dir.path());
  std::filesystem::rename(dir.path() / "model.safetensors", dir.path() / "model-00001-of-00001.safetensors");
  const auto list = [&](const std::string& more) {
    std::ofstream index(dir.path() / "model.safetensors.index.json");
    index << R"({"metadata": {"total_size": 99999}, "weight_map": {)";
    for (const auto& tensor : describe_model(kConfig, "config.json", Purpose::kImport, {}).tensors)
      index << '"' << tensor.name << R"(": "model-00001-of-00001.safetensors",)";
    index << '"' << more << R"(": "model-00001-of-00001.safetensors"}})";
  };
  const auto refused = [&] {
    return test::refusal(Code::kCheckpoint, [&] { return ModelWeights(dir.path(), "cannot read"); });
  };
  list("lm_head.weight");
  EXPECT_EQ(refused(), "accepted");
  list("more");
  EXPECT_MENTIONS(refused(), "'more' in a file which does not contain it");
}

TEST_F(WeightFiles, NameTheWeightThatIsMissing) {
  write_folder(dir.path());
  std::string config = kConfig;
  config.replace(config.find("\"n_layer\": 1"), 12, "\"n_layer\": 2");
  std::ofstream(dir.path() / "config.json") << config;
  EXPECT_EQ(test::refusal(Code::kCheckpoint, [&] { ModelWeights(dir.path(), "cannot read"); }),
            "cannot read '" + dir.path().string() +
                "': tensor 'transformer.h.1.ln_1.weight' [8] of config.json's model is missing");
}

}  // namespace
}  // namespace echelon::families
