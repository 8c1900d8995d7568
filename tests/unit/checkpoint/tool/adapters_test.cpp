// LoRA adapters in echelon-ckpt export and import; that peft reads them, merges and computes alike is
// lora_oracle.py's subject.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "checkpoint/format/json.h"
#include "checkpoints_tool/merged_read.h"
#include "families/convert.h"
#include "support/matches.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/llama_example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

std::vector<float> values_of(const TensorInfo& tensor) {
  const std::vector<std::byte> bytes = content_of(tensor);
  std::vector<float> values(element_count(tensor));
  families::convert(bytes, tensor.dtype, std::as_writable_bytes(std::span(values)), DType::kF32);
  return values;
}

TEST(MergedRead, AddsTheProductWhereverARangeBeginsAndEnds) {
  const TempDir dir;
  const TensorInfo weight{"model/w", DType::kF32, {19, 23}};
  const TensorInfo a{"model/a", DType::kF32, {3, 23}};
  const TensorInfo b{"model/b", DType::kBF16, {19, 3}};
  const Path folder = save(dir.path(), {.ranks = 3, .cut = random_cut(2), .tensors = {weight, a, b}});
  const Reader reader(folder);
  tool::OutputTensor tensor = tool::whole_tensor(weight);
  tensor.added = tool::LowRank{a, b, 0.5};
  const std::vector<float> down = values_of(a);
  const std::vector<float> up = values_of(b);
  tool::MergedRead merged(reader);
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t begin = random() % (19 * 23);
    const std::uint64_t end = begin + random() % (19 * 23 - begin + 1);
    std::vector<float> values(end - begin, 1.0F);
    merged.add(tensor, begin, values);
    for (std::uint64_t k = begin; k < end; ++k) {
      double product = 0;
      for (std::uint64_t r = 0; r < 3; ++r)
        product += static_cast<double>(up[k / 23 * 3 + r]) * static_cast<double>(down[r * 23 + k % 23]);
      const double expected = 1.0 + 0.5 * product;
      ASSERT_NEAR(static_cast<double>(values[k - begin]), expected, 1e-5 * std::fabs(expected)) << k;
    }
  }
}

/// A Llama of one layer with an adapter of q_proj.
Example adapted(bool tied = true) {
  Example example = llama(tied);
  example.attachments["adapter_config.json"] = R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6})";
  const std::string matrix = "model/model.layers.0.self_attn.q_proj.";
  example.tensors.push_back({matrix + "lora_A.weight", DType::kF32, {3, 8}});
  example.tensors.push_back({matrix + "lora_B.weight", DType::kF32, {8, 3}});
  return example;
}

Outcome exported(const TempDir& dir, const Example& example, bool merge) {
  const std::filesystem::path folder = dir.path() / "c";
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(dir.path() / "o");
  save(folder, example);
  return merge ? tool({"export", folder, "--merge", "--output", dir.path() / "o"})
               : tool({"export", folder, "--output", dir.path() / "o"});
}

using ExportOfAdapters = InTempDir;

TEST_F(ExportOfAdapters, IsPeftsFolderOrTheWholeModel) {
  succeeded(exported(dir, adapted(), false));
  EXPECT_EQ(names_in(dir.path() / "o"),
            (std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors"}));
  succeeded(exported(dir, adapted(), true));
  expect_one_line(tool({"export", dir.path() / "c", "--output", dir.path() / "p", "--max-shard-size", "1GB"}),
                  2, "an adapter is never split; remove --max-shard-size");
  const std::string file = slurp(dir.path() / "o" / "model.safetensors");
  EXPECT_FALSE(test::mentions(file, "lora_"));
}

TEST_F(ExportOfAdapters, FrozenOnesHaveNoAverageAndAreMergedAsTheyAre) {
  const auto averaged = [&](const std::string& name, const Example& trained, const std::string& frozen) {
    Example example = trained;
    for (TensorInfo tensor : trained.tensors) {
      if (!tensor.name.starts_with("model/") || test::mentions(tensor.name, frozen)) continue;
      tensor.name.replace(0, 5, "ema");
      example.tensors.push_back(tensor);
    }
    save(dir.path() / name, example);
    std::vector<std::string> command{"export", dir.path() / name, "--ema", "--output",
                                     dir.path() / (name + "-out")};
    if (name != "bare") command.emplace_back("--merge");
    succeeded(tool(command));
    return slurp(dir.path() / (name + "-out") / "model.safetensors");
  };
  const std::set<std::string> files{averaged("all", adapted(), "nothing"), averaged("B", adapted(), "lora_A"),
                                    averaged("none", adapted(), "lora_"),
                                    averaged("bare", llama(true), "nothing")};
  EXPECT_EQ(files.size(), 4U)
      << "each adds another product to the averaged weights, but the last, which adds none";
}

TEST_F(ExportOfAdapters, RefusesWhatItCannotScaleOrFit) {
  const auto refused = [&](const Example& example, const std::string& said) {
    const Outcome outcome = exported(dir, example, true);
    EXPECT_EQ(outcome.code, 5) << outcome.err;
    EXPECT_MENTIONS(outcome.err, said);
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "o"));
  };
  Example without = adapted();
  without.attachments.erase("adapter_config.json");
  refused(without, "no adapter_config.json that tells their scale");
  for (const char* config : {R"({"r": 3})", R"([])", R"({"r": "3", "lora_alpha": 6})"}) {
    Example other = adapted();
    other.attachments["adapter_config.json"] = config;
    refused(other, "expected the numbers r and lora_alpha");
  }
  Example rank = adapted();
  rank.attachments["adapter_config.json"] = R"({"r": 4, "lora_alpha": 6})";
  refused(rank, "does not fit its weight [8, 8] and rank 4");
  rank.attachments["adapter_config.json"] = R"({"r": 0, "lora_alpha": 6})";
  refused(rank, "expected a rank of 1 to");
  Example half = adapted();
  half.tensors.pop_back();
  refused(half, "");
}

const Json kPeftConfig = {{"peft_type", "LORA"}, {"r", 3}, {"lora_alpha", 6}, {"target_modules", {"q_proj"}}};

/// peft's folder of the adapter in adapted().
Path peft_folder(const TempDir& dir) {
  Example example = adapted();
  example.attachments["adapter_config.json"] = kPeftConfig.dump();
  save(dir.path() / "a", example);
  succeeded(tool({"export", dir.path() / "a", "--output", dir.path() / "peft"}));
  return dir.path() / "peft";
}

Outcome imported(const TempDir& dir, const Path& folder) {
  std::filesystem::remove_all(dir.path() / "o");
  return tool({"import", folder, "--base", dir.path() / "base", "--output", dir.path() / "o"});
}

using ImportOfAdapters = InTempDir;

TEST_F(ImportOfAdapters, RefusesByNameWhatPeftWouldComputeOtherwise) {
  save(dir.path() / "base", llama(true));
  const Path folder = peft_folder(dir);
  const auto outcome = [&](const char* key, const Json& value) {
    Json config = kPeftConfig;
    config[key] = value;
    std::ofstream(folder / "adapter_config.json") << config.dump();
    return imported(dir, folder);
  };
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"use_dora", true},
                                                 {"bias", "all"},
                                                 {"layers_to_transform", {0}},
                                                 {"rank_pattern", {{"q_proj", 4}}},
                                                 {"alpha_pattern", {{"q_proj", 4}}},
                                                 {"fan_in_fan_out", true},
                                                 {"trainable_token_indices", {1}},
                                                 {"init_lora_weights", "pissa"},
                                                 {"of_a_later_peft", 2}}) {
    const Outcome refused = outcome(key, value);
    expect_one_line(refused, 5, str(" sets ", key, " to "));
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "o"));
  }
  for (const auto& [key, value] : std::vector<std::pair<const char*, Json>>{{"use_dora", false},
                                                                            {"bias", "none"},
                                                                            {"layers_to_transform", nullptr},
                                                                            {"rank_pattern", Json::object()},
                                                                            {"init_lora_weights", "gaussian"},
                                                                            {"qalora_group_size", 16},
                                                                            {"target_modules", "all.*"}}) {
    EXPECT_EQ(outcome(key, value).code, 0) << key;
  }
  expect_one_line(outcome("peft_type", "IA3"), 5, "has peft_type \"IA3\"; expected \"LORA\"");
  expect_one_line(outcome("r", 2), 5, "and rank 2 need floating-point numbers of shape [2, 8]");
  expect_one_line(outcome("lora_alpha", 0), 5, "an alpha above 0");
  expect_one_line(outcome("lora_dropout", 1), 5, "has lora_dropout 1");
  expect_one_line(
      outcome("target_modules", {"q_proj", "v_proj"}), 5,
      "target_modules names 'model.layers.0.self_attn.v_proj', but adapter_model.safetensors has");
  expect_one_line(outcome("target_modules", {"k_proj"}), 5, "target_modules names");
  expect_one_line(outcome("target_modules", "all-linear"), 5, "target_modules names");
  expect_one_line(outcome("modules_to_save", {"model.norm"}), 5,
                  "it lacks tensor 'base_model.model.model.norm.weight'");
  expect_one_line(outcome("modules_to_save", {"embed_tokens"}), 5,
                  "modules_to_save names 'model.embed_tokens', whose weight is also the head");
  expect_one_line(outcome("modules_to_save", 3), 5, "modules_to_save that is no list of names");
}

TEST_F(ImportOfAdapters, ComeBackWithTheModulesThatWereTrainedWhole) {
  save(dir.path() / "base", llama(false));
  Json config = kPeftConfig;
  const auto export_from = [&](const Path& checkpoint, const std::string& output) {
    return tool({"export", checkpoint, "--output", dir.path() / output});
  };
  Example example = adapted(false);
  config["modules_to_save"] = {"model.embed_tokens", "lm_head"};
  example.attachments["adapter_config.json"] = config.dump();
  save(dir.path() / "a", example);
  ASSERT_EQ(export_from(dir.path() / "a", "peft").code, 0);
  const std::string weights = slurp(dir.path() / "peft" / "adapter_model.safetensors");
  EXPECT_MENTIONS(weights, "base_model.model.model.embed_tokens.weight", "base_model.model.lm_head.weight");
  config["modules_to_save"] = {"embed_tokens", "lm_head"};  // as users of peft name them
  spill(dir.path() / "peft" / "adapter_config.json", config.dump());
  ASSERT_EQ(imported(dir, dir.path() / "peft").code, 0);
  EXPECT_EQ(export_from(dir.path() / "o", "again").code, 0);
  EXPECT_EQ(slurp(dir.path() / "again" / "adapter_model.safetensors"), weights);

  config["modules_to_save"] = {"norm"};  // those of the blocks too, to peft
  example.attachments["adapter_config.json"] = config.dump();
  save(dir.path() / "norms", example);
  ASSERT_EQ(export_from(dir.path() / "norms", "peft-norms").code, 0);
  succeeded(imported(dir, dir.path() / "peft-norms"));
  EXPECT_MENTIONS(Reader(dir.path() / "o").attachment("recipe.yaml"), "  also_train: [model.", "model.norm",
                  "model.layers.0.input_layernorm");
  ASSERT_EQ(imported(dir, dir.path() / "peft").code, 0);

  example = Example{.tensors = {}};
  const Reader whole(dir.path() / "o");
  example.tensors = whole.tensors();
  for (const std::string& name : whole.attachments()) example.attachments[name] = whole.attachment(name);
  example.attachments["adapter_config.json"] = kPeftConfig.dump();
  save(dir.path() / "unnamed", example);
  expect_one_line(export_from(dir.path() / "unnamed", "none"), 5,
                  "tensor 'model/lm_head.weight' is no adapter, and no module that modules_to_save");
}

/// llama() with feed-forward matrices of 2^20 rows or columns, in bf16: 48 MiB.
Example wide_llama() {
  Example example = llama(true);
  std::string& config = example.attachments["config.json"];
  config.replace(config.find("\"intermediate_size\": 12"), 23, "\"intermediate_size\": 1048576");
  for (TensorInfo& tensor : example.tensors) {
    if (tensor.name.starts_with("model/")) tensor.dtype = DType::kBF16;
    std::replace(tensor.shape.begin(), tensor.shape.end(), std::int64_t{12}, std::int64_t{1} << 20);
  }
  return example;
}

TEST_F(ImportOfAdapters, AreMergedWithABaseThatIsConvertedInBoundedMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the address sanitizer needs memory of its own";
#endif
  save(dir.path() / "base", wide_llama());
  ASSERT_EQ(imported(dir, peft_folder(dir)).code, 0);
  const Outcome merged = succeeded(
      tool({"export", dir.path() / "o", "--merge", "--output", dir.path() / "merged", "--mem", "64M"}));
  EXPECT_LT(merged.max_rss_bytes, 64U << 20);
  EXPECT_GT(std::filesystem::file_size(dir.path() / "merged" / "model.safetensors"), 96U << 20);
}

TEST_F(ImportOfAdapters, RefusesFoldersAndBasesThatAreNone) {
  save(dir.path() / "base", adapted());
  const Path folder = peft_folder(dir);
  expect_one_line(imported(dir, folder), 5, "has adapters of its own");
  std::filesystem::remove_all(dir.path() / "base");
  save(dir.path() / "base", llama(true));
  expect_one_line(imported(dir, dir.path() / "base"), 2, "it has no adapter_config.json");
  expect_one_line(tool({"import", folder, "--output", dir.path() / "o"}), 2, "name the base");
  save(dir.path() / "untied", llama(false));
  const Path hf = dir.path() / "hf";
  ASSERT_EQ(tool({"export", dir.path() / "untied", "--output", hf}).code, 0);
  Json config = Json::parse(std::ifstream(hf / "config.json"));
  config["tie_word_embeddings"] = true;
  std::ofstream(hf / "config.json") << config.dump();
  expect_one_line(tool({"import", folder, "--base", hf, "--output", dir.path() / "o"}), 5,
                  "(tie_word_embeddings), but the two differ");
  std::filesystem::remove(folder / "adapter_model.safetensors");
  expect_one_line(imported(dir, folder), 5, "it has no adapter_model.safetensors");
}

}  // namespace
}  // namespace echelon::checkpoint
