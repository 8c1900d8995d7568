#include <gtest/gtest.h>

#include <thread>

#include "checkpoint/folder/run_folder.h"
#include "support/in_temp_dir.h"
#include "support/matches.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

void expect_whole(const Reader& reader, const Example& example) {
  ASSERT_EQ(reader.tensors().size(), example.tensors.size());
  for (const TensorInfo& tensor : example.tensors) {
    const TensorInfo* found = reader.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->dtype, tensor.dtype);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(read_all(reader, tensor), content_of(tensor)) << tensor.name;
  }
}

class RoundTrip : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, RoundTrip, testing::Values(1, 2, 3, 4));

TEST_P(RoundTrip, GivesBackEveryTensorCutEvenly) {
  const TempDir dir;
  const Example example{.ranks = GetParam()};
  const Reader reader(save(dir.path(), example));
  expect_whole(reader, example);
  EXPECT_EQ(reader.step(), 1200);
  EXPECT_EQ(reader.ranks(), GetParam());
  EXPECT_EQ(reader.trainer_state(), R"({"schedule":{"lr":0.00012345},"tokens":123456789})");
  EXPECT_EQ(reader.attachments(), (std::vector<std::string>{"config.json", "recipe.yaml"}));
  EXPECT_EQ(reader.attachment("recipe.yaml"), "run: {name: x}\n");
  EXPECT_EQ(reader.find("model/absent"), nullptr);
}

TEST_P(RoundTrip, GivesBackAnyRangeOfTensorsCutAnywhere) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const TempDir dir;
    const Example example{.ranks = GetParam(), .cut = random_cut(seed)};
    const Reader reader(save(dir.path(), example));
    expect_whole(reader, example);
    std::mt19937_64 random(seed);
    for (const TensorInfo& tensor : example.tensors) {
      const auto whole = content_of(tensor);
      const std::uint64_t n = element_count(tensor);
      const std::size_t size = size_of(tensor.dtype);
      for (int i = 0; i < 20; ++i) {
        std::uint64_t begin = random() % (n + 1);
        std::uint64_t end = random() % (n + 1);
        if (begin > end) std::swap(begin, end);
        std::vector<std::byte> part((end - begin) * size);
        reader.read(tensor.name, begin, end, part);
        EXPECT_TRUE(
            std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin * size)))
            << tensor.name << ' ' << begin << ' ' << end;
      }
    }
  }
}

using CheckpointReader = InTempDir;
TEST_F(CheckpointReader, ReadsFromSeveralThreads) {
  const Example example{.ranks = 3, .cut = random_cut(7)};
  const Reader reader(save(dir.path(), example));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const TensorInfo& tensor : example.tensors)
        wrong[t] += read_all(reader, tensor) != content_of(tensor) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST_F(CheckpointReader, RefusesARangeOrBufferThatDoesNotFit) {
  const Reader reader(save(dir.path()));
  std::vector<std::byte> four(4);
  EXPECT_NE(error_of([&] { reader.read("model/model.norm.weight", 33, 34, four); }), "");
  EXPECT_NE(error_of([&] { reader.read("model/model.norm.weight", 2, 1, {}); }), "");
  EXPECT_NE(error_of([&] { reader.read("model/model.norm.weight", 0, 2, four); }), "");
  EXPECT_MENTIONS(error_of([&] { reader.read("model/absent", 0, 1, four); }), "no tensor 'model/absent'");
  EXPECT_EQ(error_of([&] { reader.read("model/model.norm.weight", 33, 33, {}); }), "");
}

TEST_F(CheckpointReader, FindsTheNewestCommitOfARunFolder) {
  const Path checkpoints = dir.path() / "checkpoints";
  save(checkpoints, {.step = 5, .save_id = "00000005"});
  save(checkpoints, {.step = 10, .save_id = "00000010"});
  write_shards(checkpoints, {.step = 20, .save_id = "00000020"});  // never committed
  EXPECT_EQ(Reader(dir.path()).step(), 10);
  EXPECT_EQ(Reader(checkpoints).step(), 10);
  EXPECT_EQ(Reader(checkpoints / "step-000000005.00000005/").step(), 5);
  const auto found = list(checkpoints);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].step, 5);
  EXPECT_TRUE(found[0].committed);
  EXPECT_EQ(found[2].step, 20);
  EXPECT_FALSE(found[2].committed);
  EXPECT_EQ(found[2].problem, "");
}

TEST_F(CheckpointReader, SaysWhenThereIsNothing) {
  EXPECT_TRUE(list(dir.path() / "absent").empty());
  EXPECT_MENTIONS(error_of([&] { Reader(dir.path() / "absent"); }), "there is no such folder");
  EXPECT_MENTIONS(error_of([&] { Reader{dir.path()}; }), "no committed checkpoint");
}

TEST(Writer, GivesTheSameBytesForTheSameState) {
  const TempDir a;
  const TempDir b;
  const Path first = save(a.path(), {.cut = random_cut(3)});
  const Path second = save(b.path(), {.cut = random_cut(3)});
  for (const char* name : {"shard-00000-of-00002.h5", "shard-00001-of-00002.h5", "MANIFEST.json", "COMMIT"}) {
    EXPECT_EQ(slurp(first / name), slurp(second / name)) << name;
  }
}

TEST(Writer, AlignsEveryTensorForDirectTransfers) {
  const TempDir dir;
  const Path folder = save(dir.path(), {.ranks = 1});
  const std::string text = slurp(folder / "shard-00000-of-00001.h5");
  const auto content = content_of(example_tensors()[3]);
  const std::string big(reinterpret_cast<const char*>(content.data()), content.size());
  const auto at = text.find(big);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(at % 4096, 0U);
}

}  // namespace
}  // namespace echelon::checkpoint
