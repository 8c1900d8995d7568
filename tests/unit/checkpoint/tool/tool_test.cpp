// echelon-ckpt, run as a user runs it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/str.h"
#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;

using Tool = InTempDir;

TEST_F(Tool, TellsItsVersionAndHelp) {
  EXPECT_MENTIONS(tool({"--version"}).out, "checkpoint format 1.1");
  const Outcome help = succeeded(tool({"--help"}));
  for (const char* part : {"ls", "inspect", "verify", "consolidate", "Exit codes"})
    EXPECT_MENTIONS(help.out, part) << part;
  EXPECT_MENTIONS(tool({"consolidate", "--help"}).out, "--dtype");
}

TEST_F(Tool, CallsAWrongCommandLineUsage) {
  expect_one_line(tool({}), 2, "no command given; there are ls, inspect");
  expect_one_line(tool({"frobnicate"}), 2, "frobnicate");
  expect_one_line(tool({"verify"}), 2, "CKPT");
  expect_one_line(tool({"verify", "--quick", "--deep", "x"}), 2, "--deep");
  expect_one_line(tool({"consolidate", "x", "--to", "pickle", "--output", "y"}), 2, "pickle");
  expect_one_line(tool({"ls", "/no/such/folder"}), 2, "no folder '/no/such/folder'");
}

TEST_F(Tool, RefusesOptionsThatItWouldIgnore) {
  const Path folder = save(dir.path() / "c");
  const Path output = dir.path() / "o";
  expect_one_line(
      tool({"consolidate", folder, "--to", "hdf5", "--output", output, "--max-shard-size", "5GB"}), 2,
      "remove --max-shard-size");
  expect_one_line(tool({"salvage", folder, "--mem", "64M"}), 2, "--mem requires --output");
  expect_one_line(tool({"salvage", folder, "--jobs", "1"}), 2, "--jobs requires --output");
  expect_one_line(tool({"salvage", folder, "--allow-foreign-folder"}), 2, "requires --output");
  EXPECT_FALSE(std::filesystem::exists(output));
}

TEST_F(Tool, ListsEveryAttemptWithItsState) {
  const Path checkpoints = dir.path() / "checkpoints";
  save(checkpoints, {.step = 1, .save_id = "00000001"});
  flip_bit(save(checkpoints, {.step = 2, .save_id = "00000002"}) / "MANIFEST.json", 9);
  write_shards(checkpoints, {.step = 3, .save_id = "00000003"});
  const json rows = json::parse(tool({"ls", "--json", dir.path()}).out);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0]["state"], "committed");
  EXPECT_EQ(rows[0]["ranks"], 2);
  EXPECT_EQ(rows[1]["state"], "damaged");
  EXPECT_MENTIONS(rows[1]["problem"], "MANIFEST.json");
  EXPECT_EQ(rows[2]["state"], "uncommitted");
  const std::string table = tool({"ls", dir.path()}).out;
  EXPECT_MENTIONS(table, "DAMAGED", "uncommitted", "step-000000001.00000001");
}

TEST_F(Tool, ListsOneStepFolderItself) {
  const Path whole = save(dir.path(), {.step = 1, .save_id = "00000001"});
  const Path unfinished = write_shards(dir.path(), {.step = 2, .save_id = "00000002"});
  for (const Path& named : {whole, whole / ""}) {
    const json rows = json::parse(tool({"ls", "--json", named}).out);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0]["step"], 1);
    EXPECT_EQ(rows[0]["state"], "committed");
    EXPECT_EQ(rows[0]["folder"], whole.string());
  }
  EXPECT_EQ(json::parse(tool({"ls", "--json", unfinished}).out)[0]["state"], "uncommitted");
  const Path renamed = dir.path() / "start";
  std::filesystem::rename(whole, renamed);
  const json rows = json::parse(tool({"ls", "--json", renamed}).out);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["step"], 1);
}

TEST_F(Tool, TellsProgramsOfAFailure) {
  const std::vector<std::vector<std::string>> commands{{"ls", "--json", "/no/such/folder"},
                                                       {"inspect", "--json", "/no/such/folder"},
                                                       {"verify", "--json"},
                                                       {"prune", "--json", dir.path(), "--keep-last", "nan"}};
  for (const auto& words : commands) {
    const Outcome outcome = tool(words);
    const json error = json::parse(outcome.out)["error"];
    EXPECT_EQ(error["code"], outcome.code) << words[0];
    EXPECT_EQ("echelon-ckpt: " + error["message"].get<std::string>() + "\n", outcome.err) << words[0];
  }
}

TEST_F(Tool, InspectsWithoutReadingTensors) {
  const Path folder = save(dir.path(), {.ranks = 3});
  const json all = json::parse(tool({"inspect", "--json", folder}).out);
  EXPECT_EQ(all["step"], 1200);
  EXPECT_EQ(all["ranks"], 3);
  EXPECT_EQ(all["trainer_state"]["tokens"], 123456789);
  EXPECT_EQ(all["tensors"].size(), example_tensors().size());
  EXPECT_MENTIONS(tool({"inspect", folder}).out, "model/model.norm.weight");
}

TEST_F(Tool, GivesATensorTheSameChecksumHoweverItWasCut) {
  const auto checksums = [&](const Path& folder) {
    std::map<std::string, std::string> sums;
    const json all = json::parse(tool({"inspect", "--json", folder}).out);
    for (const json& tensor : all["tensors"]) {
      sums[tensor["name"]] = tensor["crc32c"];
    }
    return sums;
  };
  EXPECT_EQ(checksums(save(dir.path() / "a", {.ranks = 1})),
            checksums(save(dir.path() / "b", {.ranks = 4, .cut = random_cut(9)})));
}

TEST_F(Tool, VerifyNamesRankTensorAndBytes) {
  const Path folder = save(dir.path());
  succeeded(tool({"verify", dir.path()}));
  const Path shard = folder / "shard-00001-of-00002.h5";
  flip_bit(shard, std::filesystem::file_size(shard) - 1);  // the last byte of the last tensor
  succeeded(tool({"verify", "--quick", folder}));
  const Outcome text = tool({"verify", folder});
  expect_one_line(text, 5, "damaged in 1 place");
  EXPECT_MENTIONS(text.out, "rank 1", "'rng/state'", "file bytes");
  const Outcome machine = tool({"verify", "--json", folder});
  EXPECT_EQ(machine.code, 5);
  const json report = json::parse(machine.out);
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["damages"][0]["rank"], 1);
  EXPECT_EQ(report["damages"][0]["tensor"], "rng/state");
  EXPECT_EQ(report["damages"][0]["byte_end"], std::filesystem::file_size(shard));
}

TEST_F(Tool, VerifyOfARunLooksAtItsNewestCommitEvenIfDamaged) {
  save(dir.path() / "checkpoints", {.step = 1, .save_id = "00000001"});
  const Path newest = save(dir.path() / "checkpoints", {.step = 2, .save_id = "00000002"});
  flip_bit(newest / "COMMIT", 30);
  expect_one_line(tool({"verify", dir.path()}), 5, "step-000000002");
  expect_one_line(tool({"consolidate", dir.path(), "--to", "hdf5", "--output", dir.path() / "o.h5"}), 5,
                  "step-000000002");
}

TEST_F(Tool, RefusesWhatIsNoCommittedCheckpoint) {
  const Path folder = write_shards(dir.path(), {});
  expect_one_line(tool({"verify", folder}), 5, "is damaged in 1 place");
  expect_one_line(tool({"inspect", folder}), 5,
                  "was never committed (it has no file COMMIT): its save did not finish; use an earlier one");
  const TempDir foreign;
  const Path file = foreign.path() / "model.h5";
  spill(file, "h5");
  const auto on = [&](const std::string& command, const Path& checkpoint) {
    if (command != "consolidate") return tool({command, checkpoint});
    return tool({command, checkpoint, "--to", "hdf5", "--output", dir.path() / "out.h5"});
  };
  const std::string name_one = "; name a run folder or a step folder";
  for (const char* command : {"inspect", "verify", "consolidate"}) {
    for (const Path& absent : {dir.path() / "absent", file})
      expect_one_line(on(command, absent), 5,
                      str("no checkpoint '", absent.string(), "': there is no such folder", name_one));
    for (const Path& empty : {dir.path(), foreign.path()})
      expect_one_line(on(command, empty), 5,
                      str("no committed checkpoint in '", empty.string(), "'", name_one));
  }
  spill(foreign.path() / "adapter_config.json", "{}");
  expect_one_line(tool({"inspect", foreign.path()}), 5,
                  str("no committed checkpoint in '", foreign.path().string(), "'", name_one,
                      "; it holds an adapter of peft: echelon-ckpt import"));
  expect_one_line(tool({"ls", file}), 2, str("no folder '", file.string(), "'"));
}

TEST_F(Tool, ConsolidatesOnlyToAFreshPlaceOutsideTheCheckpoint) {
  const Path folder = save(dir.path() / "c");
  const auto into = [&](const Path& output) {
    return tool({"consolidate", folder, "--to", "hdf5", "--output", output});
  };
  spill(dir.path() / "taken", "precious");
  expect_one_line(into(dir.path() / "taken"), 2, "exists already");
  EXPECT_EQ(slurp(dir.path() / "taken"), "precious");
  std::filesystem::create_symlink("nowhere", dir.path() / "dangling");
  expect_one_line(into(dir.path() / "dangling"), 2, "exists already");
  expect_one_line(into(folder / "model.h5"), 2, "inside the checkpoint");
  expect_one_line(into(folder / "absent" / "model.h5"), 2, "inside the checkpoint");
  expect_one_line(into(dir.path() / "taken" / "model.h5"), 2, "taken' is a file");
  EXPECT_EQ(into(dir.path() / "model.h5").code, 0);
  EXPECT_EQ(into(dir.path() / "absent" / "deep" / "model.h5").code, 0);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"absent", "c", "dangling", "model.h5", "taken"}));
  succeeded(tool({"verify", folder}));
}

TEST_F(Tool, LeavesNothingOfAConsolidationThatFails) {
  const Path folder = save(dir.path() / "c", {.ranks = 1});
  const Path shard = folder / "shard-00000-of-00001.h5";
  const std::string bytes = slurp(shard);
  const auto content = content_of(example_tensors()[0]);
  flip_bit(shard,
           bytes.find(std::string(reinterpret_cast<const char*>(content.data()), content.size())) + 77);
  for (const char* format : {"hdf5", "safetensors"}) {
    const Outcome outcome = tool({"consolidate", folder, "--to", format, "--output", dir.path() / "out"});
    expect_one_line(outcome, 5, "embed_tokens");
  }
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"c"});
}

TEST_F(Tool, ConsolidatesIntoAFolderThatNamesTheOutputType) {
  Example example;
  example.attachments["tokenizer.model"] = "bytes";
  const Path folder = save(dir.path() / "c", example);
  succeeded(tool({"consolidate", folder, "--to", "safetensors", "--output", dir.path() / "same"}));
  EXPECT_EQ(names_in(dir.path() / "same"),
            (std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.model"}));
  EXPECT_EQ(slurp(dir.path() / "same" / "config.json"), example.attachments["config.json"]);
  succeeded(tool(
      {"consolidate", folder, "--to", "safetensors", "--dtype", "bf16", "--output", dir.path() / "half/"}));
  EXPECT_EQ(json::parse(slurp(dir.path() / "half" / "config.json"))["torch_dtype"], "bfloat16");
}

TEST_F(Tool, NeedsAConfigForSafetensorsOnly) {
  Example example;
  example.attachments.erase("config.json");
  const Path folder = save(dir.path() / "c", example);
  expect_one_line(tool({"consolidate", folder, "--to", "safetensors", "--output", dir.path() / "o"}), 5,
                  "config.json");
  succeeded(tool({"consolidate", folder, "--to", "hdf5", "--output", dir.path() / "o"}));
}

}  // namespace
}  // namespace echelon::checkpoint
