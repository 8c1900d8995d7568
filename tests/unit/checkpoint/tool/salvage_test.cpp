// echelon-ckpt salvage.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "unit/checkpoint/example.h"
#include "unit/checkpoint/tool/run_tool.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT
using nlohmann::json;

std::set<std::string> names_of(const json& tensors) {
  std::set<std::string> names;
  for (const json& tensor : tensors) names.insert(tensor["name"]);
  return names;
}

std::set<std::string> all_names() {
  std::set<std::string> names;
  for (const TensorInfo& tensor : example_tensors()) names.insert(tensor.name);
  return names;
}

/// Whole tensors, each on one rank: so that a lost shard leaves some of them.
std::vector<std::uint64_t> whole_cut(const TensorInfo& tensor, std::uint64_t n, int ranks) {
  const auto holder = static_cast<int>(tensor.name.size() % static_cast<std::size_t>(ranks));
  std::vector<std::uint64_t> borders;
  for (int r = 0; r <= ranks; ++r) borders.push_back(r <= holder ? 0 : n);
  return borders;
}

json report(const Path& folder, int code) {
  const Outcome outcome = tool({"salvage", "--json", folder});
  EXPECT_EQ(outcome.code, code) << outcome.err;
  return json::parse(outcome.out);
}

using SalvageCommand = InTempDir;

TEST_F(SalvageCommand, FindsAllOfASaveThatOnlyLacksItsCommit) {
  const Path folder = write_shards(dir.path(), {.ranks = 3, .cut = random_cut(6)});
  const Path output = dir.path() / "out.h5";
  const Outcome outcome = succeeded(tool({"salvage", folder, "--output", output}));
  EXPECT_MENTIONS(outcome.out, "never committed");
  std::set<std::string> stored = all_names();
  stored.erase("model/nothing");  // no rank stores a tensor without elements
  const json written = json::parse(slurp(output.string() + ".json"));
  EXPECT_EQ(names_of(written["intact"]), stored);
  EXPECT_TRUE(written["lost"].empty());
  // The same bytes as those of the committed checkpoint, less what only a manifest knows of.
  const std::string bytes = slurp(output);
  for (const TensorInfo& tensor : example_tensors()) {
    const auto content = content_of(tensor);
    if (content.size() < 100) continue;
    EXPECT_MENTIONS(bytes, std::string(reinterpret_cast<const char*>(content.data()), content.size()))
        << tensor.name;
  }
}

TEST_F(SalvageCommand, TakesAnyPathOfTheFolder) {
  const Path folder = write_shards(dir.path(), {.ranks = 1});
  std::filesystem::create_directory_symlink(folder, dir.path() / "link");
  for (const Path& path : {folder / ".", folder / "", dir.path() / "link"})
    EXPECT_EQ(tool({"salvage", path}).code, 0) << path;
}

TEST_F(SalvageCommand, LosesOnlyTheTensorThatIsDamaged) {
  const Path folder = save(dir.path(), {.ranks = 2});
  const Path shard = folder / "shard-00001-of-00002.h5";
  flip_bit(shard, std::filesystem::file_size(shard) - 1);
  const json found = report(folder, 5);
  EXPECT_EQ(found["problem"], "");
  EXPECT_EQ(names_of(found["lost"]), std::set<std::string>{"rng/state"});
  EXPECT_MENTIONS(found["lost"][0]["problem"], "rank 1");
  std::set<std::string> rest = all_names();
  rest.erase("rng/state");
  EXPECT_EQ(names_of(found["intact"]), rest);
}

TEST_F(SalvageCommand, KeepsTheTensorsOfTheShardsThatAreLeft) {
  const Path folder = save(dir.path(), {.ranks = 3, .cut = whole_cut});
  std::filesystem::remove(folder / "shard-00001-of-00003.h5");
  std::set<std::string> gone;
  for (const TensorInfo& tensor : example_tensors()) {
    if (tensor.name.size() % 3 == 1 && element_count(tensor) != 0) gone.insert(tensor.name);
  }
  ASSERT_FALSE(gone.empty());
  const json with_manifest = report(folder, 5);
  EXPECT_EQ(names_of(with_manifest["lost"]), gone);
  ASSERT_EQ(with_manifest["lost_shards"].size(), 1U);
  EXPECT_MENTIONS(with_manifest["lost_shards"][0], "rank 1");
  flip_bit(folder / "MANIFEST.json", 40);
  const json without = report(folder, 5);
  EXPECT_MENTIONS(without["problem"], "MANIFEST.json");
  EXPECT_TRUE(without["lost"].empty());  // nobody can name them any more
  for (const std::string& name : gone) EXPECT_EQ(names_of(without["intact"]).count(name), 0U);
}

TEST_F(SalvageCommand, RefusesWhatIsNoStepFolderOrHoldsNothing) {
  expect_one_line(tool({"salvage", dir.path()}), 5, "not named like a step folder");
  const Path folder = write_shards(dir.path(), {.ranks = 1});
  spill(folder / "shard-00000-of-00001.h5", "garbage");
  expect_one_line(tool({"salvage", folder}), 5, "nothing can be salvaged");
  std::filesystem::remove(folder / "shard-00000-of-00001.h5");
  expect_one_line(tool({"salvage", folder}), 5, "no shard in");
  expect_one_line(tool({"salvage", folder, "--output", folder / "x.h5"}), 2, "inside the checkpoint");
}

}  // namespace
}  // namespace echelon::checkpoint
