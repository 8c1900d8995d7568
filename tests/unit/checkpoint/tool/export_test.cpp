// echelon-ckpt export; that transformers reads the result is transformers_oracle.py's subject.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/llama_example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;

Outcome export_to(const Path& checkpoint, const Path& output) {
  return tool({"export", checkpoint, "--output", output});
}

json header_of(const Path& file) {
  const std::string bytes = slurp(file);
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  return json::parse(bytes.substr(8, size));
}

using Export = InTempDir;

TEST_F(Export, ConfigStatesTheTypeOfMostElements) {
  Example example = llama(false);
  json config = json::parse(example.attachments["config.json"]);
  config["torch_dtype"] = "float32";
  example.attachments["config.json"] = config.dump();
  for (TensorInfo& tensor : example.tensors) {
    if (tensor.shape.size() == 2) tensor.dtype = DType::kBF16;
  }
  save(dir.path() / "c", example);
  const auto stated = [&](const std::string& type, const std::string& command) {
    std::vector<std::string> arguments{command, dir.path() / "c", "--dtype",
                                       type,    "--output",       dir.path() / (type + command)};
    if (command == "consolidate") arguments.insert(arguments.end(), {"--to", "safetensors"});
    EXPECT_EQ(tool(arguments).code, 0);
    return json::parse(slurp(dir.path() / (type + command) / "config.json"))["torch_dtype"];
  };
  for (const std::string command : {"export", "consolidate"}) {
    EXPECT_EQ(stated("same", command), "bfloat16");
    EXPECT_EQ(stated("fp32", command), "float32");
    EXPECT_EQ(stated("bf16", command), "bfloat16");
  }
  std::filesystem::remove_all(dir.path() / "c");
  for (TensorInfo& tensor : example.tensors) tensor.dtype = DType::kF64;
  save(dir.path() / "c", example);
  std::filesystem::remove_all(dir.path() / "sameexport");
  EXPECT_EQ(stated("same", "export"), "float64");
}

TEST_F(Export, HoldsTheModelAndItsCompanionsOnly) {
  const Outcome outcome = succeeded(export_to(save(dir.path() / "c", llama(false)), dir.path() / "o"));
  EXPECT_MENTIONS(outcome.out, "no tokenizer");
  EXPECT_EQ(names_in(dir.path() / "o"),
            (std::vector<std::string>{"config.json", "generation_config.json", "model.safetensors"}));
  const json header = header_of(dir.path() / "o" / "model.safetensors");
  EXPECT_EQ(header.size(), 13U);  // twelve parameters and __metadata__
  EXPECT_EQ(header["__metadata__"]["format"], "pt");
}

TEST_F(Export, MakesTheCompanionsThatTransformersNeeds) {
  Example example = llama(false);
  example.attachments.erase("generation_config.json");
  json config = json::parse(example.attachments["config.json"]);
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = 7;
  config["max_position_embeddings"] = 16;
  example.attachments["config.json"] = config.dump();
  example.attachments["tokenizer.json"] =
      R"({"added_tokens": [{"id": 6, "content": "<a>"}, {"id": 7, "content": "<end>"}],)"
      R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})";
  succeeded(export_to(save(dir.path() / "c", example), dir.path() / "o"));
  EXPECT_EQ(json::parse(slurp(dir.path() / "o" / "generation_config.json")),
            (json{{"_from_model_config", true}, {"eos_token_id", 7}}));
  EXPECT_EQ(json::parse(slurp(dir.path() / "o" / "tokenizer_config.json")),
            (json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                  {"clean_up_tokenization_spaces", false},
                  {"add_prefix_space", true},
                  {"eos_token", "<end>"},
                  {"model_max_length", 16}}));
}

TEST_F(Export, EveryFileEndsTextAsTheConfigDoes) {
  Example example = llama(false);
  json config = json::parse(example.attachments["config.json"]);
  config["eos_token_id"] = {7, 5};
  example.attachments["config.json"] = config.dump();
  example.attachments["generation_config.json"] = R"({"eos_token_id": 6, "temperature": 0.5})";
  example.attachments["tokenizer.json"] =
      R"({"added_tokens": [{"id": 6, "content": "<a>"}, {"id": 7, "content": "<end>"}]})";
  const auto tokenizer_config = [&](const std::string& name, const std::string& text) {
    example.attachments["tokenizer_config.json"] = text;
    EXPECT_EQ(export_to(save(dir.path() / (name + "-c"), example), dir.path() / name).code, 0);
    EXPECT_EQ(json::parse(slurp(dir.path() / name / "generation_config.json")),
              (json{{"eos_token_id", {7, 5}}, {"temperature", 0.5}}));
    return slurp(dir.path() / name / "tokenizer_config.json");
  };
  EXPECT_EQ(json::parse(tokenizer_config("other", R"({"eos_token": {"content": "<a>"}, "x": 1})")),
            (json{{"eos_token", "<end>"}, {"x", 1}}));
  for (const std::string text :
       {R"({"eos_token":   "<end>"})",
        R"({"eos_token": "<b>", "added_tokens_decoder": {"5": {"content": "<b>"}}})"})
    EXPECT_EQ(tokenizer_config(str("same", text.size()), text), text);
  // transformers 4 goes by this file where tokenizer_config.json has no added_tokens_decoder.
  const auto special_tokens = [&](const std::string& name, const std::string& text) {
    example.attachments["special_tokens_map.json"] = text;
    (void)tokenizer_config(name, R"({"eos_token": "<a>"})");
    return slurp(dir.path() / name / "special_tokens_map.json");
  };
  EXPECT_EQ(json::parse(special_tokens("map", R"({"eos_token": {"content": "<a>"}, "bos_token": "<s>"})")),
            (json{{"eos_token", "<end>"}, {"bos_token", "<s>"}}));
  for (const std::string text : {R"({"bos_token":   "<s>"})", R"({"eos_token":   "<end>"})"})
    EXPECT_EQ(special_tokens(str("map", text.size()), text), text);
}

TEST_F(Export, RefusesAConfigThatIsNestedTooDeep) {
  Example example = llama(false);
  std::string deep;
  for (int i = 0; i < 60'000; ++i) deep += R"({"a":)";
  example.attachments["config.json"] = deep + "1" + std::string(60'000, '}');
  const Path folder = save(dir.path() / "c", example);
  for (const char* dtype : {"same", "fp32", "bf16"}) {
    expect_one_line(
        tool({"consolidate", folder, "--to", "safetensors", "--dtype", dtype, "--output", dir.path() / "o"}),
        5, "nested deeper than 32 levels");
  }
  expect_one_line(export_to(folder, dir.path() / "o"), 5, "nested deeper than 32 levels");
}

TEST_F(Export, StoresATiedWeightOnce) {
  EXPECT_EQ(export_to(save(dir.path() / "c", llama(true)), dir.path() / "o").code, 0);
  const json header = header_of(dir.path() / "o" / "model.safetensors");
  EXPECT_TRUE(header.contains("model.embed_tokens.weight"));
  EXPECT_FALSE(header.contains("lm_head.weight"));
}

TEST_F(Export, AFrozenParameterHasNoAverageAndIsWrittenAsItIs) {
  Example example = llama(false);
  example.tensors.push_back({"ema/model.norm.weight", DType::kF32, {8}});
  const Path checkpoint = save(dir.path() / "c", example);
  EXPECT_EQ(export_to(checkpoint, dir.path() / "last").code, 0);

  succeeded(tool({"export", checkpoint, "--ema", "--output", dir.path() / "averaged"}));
  const json header = header_of(dir.path() / "last" / "model.safetensors");
  EXPECT_EQ(header_of(dir.path() / "averaged" / "model.safetensors"), header);
  const auto bytes_of = [&](const char* folder, const json& tensor) {
    const std::string bytes = slurp(dir.path() / folder / "model.safetensors");
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    const std::size_t begin = tensor["data_offsets"][0];
    return bytes.substr(8 + size + begin, tensor["data_offsets"][1].get<std::size_t>() - begin);
  };
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    EXPECT_EQ(bytes_of("averaged", tensor) == bytes_of("last", tensor), name != "model.norm.weight") << name;
  }
}

TEST_F(Export, RefusesWeightsThatAreNotThoseOfTheConfig) {
  const auto refused = [&](const char* name, const Example& example, const std::string& why) {
    expect_one_line(export_to(save(dir.path() / name, example), dir.path() / "o"), 5, why);
  };
  Example example = llama(false);
  example.tensors.pop_back();
  refused("lacking", example, "lacks tensor 'model/model.layers.0.post_attention_layernorm.weight'");
  example = llama(false);
  example.tensors.push_back({"model/model.layers.1.mlp.up_proj.weight", DType::kF32, {12, 8}});
  refused("more", example, "'model/model.layers.1.mlp.up_proj.weight' is not a parameter");
  example = llama(false);
  example.tensors[0].shape = {8, 10};
  refused("turned", example, "would be exported as [8, 10]");
  example = llama(false);
  example.attachments["config.json"] = R"({"model_type": "mamba"})";
  refused("foreign", example, "mamba");
  example.attachments.erase("config.json");
  refused("bare", example, "config.json");
  expect_one_line(
      tool({"export", save(dir.path() / "plain", llama(false)), "--ema", "--output", dir.path() / "o"}), 5,
      "no averaged weights");
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "o"));
}

}  // namespace
}  // namespace echelon::checkpoint
