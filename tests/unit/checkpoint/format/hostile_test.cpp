// Bytes that no writer of ours makes: each must end in one Error, never in a crash, a hang or a large
// allocation.
#include <gtest/gtest.h>

#include "base/files/bytes.h"
#include "base/str.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_index.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

std::string good_manifest() {
  return manifest_text({.step = 3,
                        .save_id = "a1b2c3d4",
                        .shards = {{"shard-00000-of-00001.h5", 8192, 0x12345678}},
                        .tensors = {{"model/w", DType::kF32, {2, 3}}},
                        .digests = {{0x12345678, 0x123456789abcdef0}},
                        .attachments = {{"recipe.yaml", {.bytes = 3, .crc = 1}}},
                        .trainer_state = "{}",
                        .versions = {{"hdf5", "1.10.8"}}});
}

std::string manifest_error(const std::string& text) {
  return error_of([&] { (void)parse_manifest(text, "manifest"); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Manifest, SurvivesItsOwnText) {
  const Manifest manifest = parse_manifest(good_manifest(), "manifest");
  EXPECT_EQ(manifest.step, 3);
  EXPECT_EQ(manifest.tensors.at(0).shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(manifest.shards.at(0).index_crc, 0x12345678U);
  EXPECT_EQ(manifest_text(manifest), good_manifest());
}

TEST(Manifest, RefusesValuesOutsideTheirRange) {
  const std::string good = good_manifest();
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"step\": 3", "\"step\": -3"},
           {"\"step\": 3", "\"step\": 3.0"},
           {"\"step\": 3", "\"step\": 18446744073709551616"},
           {"\"step\": 3", "\"step\": 1e400"},
           {"\"step\": 3", "\"step\": \"3\""},
           {"\"step\": 3", "\"steps\": 3"},
           {"a1b2c3d4", "A1B2C3D4"},
           {"a1b2c3d4", "../../.."},
           {"\"bytes\": 8192", "\"bytes\": 18446744073709551615"},
           {"12345678", "1234567"},
           {"12345678", "1234567G"},
           {"\"world_size\": 1", "\"world_size\": 2"},
           {"fp32", "fp31"},
           {"model/w", "../w"},
           {"model/w", "/etc/passwd"},
           {"model/w", "model//w"},
           {"model/w", ""},
           {"model/w", "model/\\u0000"},
           {"model/w", "m\\u00f6del"},
           {"shard-00000-of-00001.h5", "../shard-00000-of-00001.h5"},
           {"shard-00000-of-00001.h5", "shard-0-of-1.h5"},
           {"shard-00000-of-00001.h5", "/dev/zero"},
           {"recipe.yaml", "../recipe.yaml"},
           {"recipe.yaml", "COMMIT"},
           {"recipe.yaml", ".bashrc"},
           {"\"trainer_state\": {}", "\"trainer_state\": []"}}) {
    EXPECT_NE(manifest_error(replaced(good, from, to)), "") << from << " -> " << to;
  }
}

TEST(Manifest, RefusesShapesThatOverflow) {
  const std::string good = good_manifest();
  const std::string shape = good.substr(good.find("\"shape\""),
                                        good.find(']', good.find("\"shape\"")) - good.find("\"shape\"") + 1);
  for (const char* bad : {"[1099511627777]", "[1099511627776, 1099511627776]", "[-1]", "[1,1,1,1,1,1,1,1,1]",
                          "[1.5]", "[null]", "7", "[4294967296, 4294967296, 4294967296, 4294967296]"}) {
    EXPECT_NE(manifest_error(replaced(good, shape, str("\"shape\": ", bad))), "") << bad;
  }
}

TEST(Manifest, RefusesATensorListedTwiceOrInsideAnother) {
  for (const char* second : {"model/w", "model/w/x", "model"}) {
    Manifest manifest = parse_manifest(good_manifest(), "manifest");
    manifest.tensors.push_back({second, DType::kF32, {}});
    manifest.digests.push_back({});
    EXPECT_NE(manifest_error(manifest_text(manifest)), "") << second;
  }
}

TEST(Json, RefusesWhatLenientParsersAccept) {
  const auto error = [](const std::string& text) { return error_of([&] { (void)parse_json(text, "x"); }); };
  EXPECT_MENTIONS(error(R"({"a":1,"a":2})"), "appears twice");
  EXPECT_MENTIONS(error(R"({"a":{"b":[{"c":1,"c":1}]}})"), "appears twice");
  EXPECT_MENTIONS(error(std::string(33, '[') + std::string(33, ']')), "nested deeper");
  EXPECT_MENTIONS(error(std::string(2'000'000, '[')), "nested deeper");
  EXPECT_MENTIONS(error(R"({"a":)" + std::string(100'000, '{')), "not valid JSON");
  for (const char* bad : {"", "{", "{}{}", "{} x", "[1e400]", "[NaN]", "[Infinity]", "['a']", "[1,]",
                          "{\"a\":1,}", "[01]", "\"\\ud800\"", "\"\xff\"", "// c\n{}", "{\"a\" 1}"}) {
    EXPECT_NE(error(bad), "") << bad;
  }
  EXPECT_EQ(error(std::string(32, '[') + std::string(32, ']')), "");
}

TEST(Commit, AcceptsOneSpellingOnly) {
  const std::string good =
      commit_text({.step = 3, .save_id = "a1b2c3d4", .manifest_bytes = 10, .manifest_crc = 7});
  EXPECT_EQ(parse_commit(good, "c").manifest_crc, 7U);
  EXPECT_NE(error_of([&] { (void)parse_commit(good + " ", "c"); }), "");
  EXPECT_NE(error_of([&] { (void)parse_commit(" " + good, "c"); }), "");
  EXPECT_NE(error_of([&] { (void)parse_commit(good + std::string(5000, ' '), "c"); }), "");
}

/// A shard index with two pieces, and ways to bend it behind its checksum's back.
class Index : public testing::Test {
 protected:
  std::vector<std::byte> block() const {
    ShardIndex index{.rank = 0, .ranks = 1, .save_id = "a1b2c3d4", .index_bytes = 4096, .file_bytes = 20000};
    index.entries = {{{"model/a", DType::kF32, {10}}, 0, 10, 8192, 40, 0, 0},
                     {{"model/b", DType::kU8, {5}}, 1, 4, 12288, 3, 1, 0}};
    index.block_crcs = {1, 2};
    return encode_index(index);
  }
  template <class T>
  std::string error_with(std::size_t at, T value) const {
    std::vector<std::byte> bytes = block();
    put(std::span(bytes), at, value);
    seal_index(bytes);
    return error_of([&] { (void)decode_index(bytes, "index"); });
  }
  static constexpr std::size_t kFirst = kIndexHeaderBytes;
  static constexpr std::size_t kSecond = kIndexHeaderBytes + 128;
};

TEST_F(Index, SurvivesItsOwnBytes) {
  const ShardIndex index = decode_index(block(), "index");
  ASSERT_EQ(index.entries.size(), 2U);
  EXPECT_EQ(index.entries[1].tensor.name, "model/b");
  EXPECT_EQ(index.entries[1].begin, 1U);
  EXPECT_EQ(encode_index(index), block());
}

TEST_F(Index, RefusesEveryLieAboutSizesAndPlaces) {
  EXPECT_EQ(error_with<std::uint64_t>(kFirst + 104, 0), "");  // the true value
  EXPECT_NE(error_with<std::uint64_t>(16, 8192), "");         // index size: not what was read
  EXPECT_NE(error_with<std::uint64_t>(16, 5000), "");
  EXPECT_NE(error_with<std::uint64_t>(16, 0), "");
  EXPECT_NE(error_with<std::uint64_t>(16, ~0ULL), "");
  EXPECT_NE(error_with<std::uint64_t>(24, 12289), "");  // the file ends inside the last piece
  EXPECT_NE(error_with<std::uint32_t>(32, 1), "");      // rank 1 of 1
  EXPECT_NE(error_with<std::uint32_t>(36, 0), "");
  EXPECT_NE(error_with<std::uint32_t>(36, 1U << 31), "");
  EXPECT_NE(error_with<std::uint64_t>(40, 0), "");  // save id
  EXPECT_NE(error_with<std::uint32_t>(48, 0), "");  // block size
  EXPECT_NE(error_with<std::uint32_t>(48, 1), "");
  EXPECT_NE(error_with<std::uint32_t>(52, 3), "");  // entries
  EXPECT_NE(error_with<std::uint32_t>(52, ~0U), "");
  EXPECT_NE(error_with<std::uint32_t>(56, 0), "");  // entry size
  EXPECT_NE(error_with<std::uint32_t>(56, ~0U), "");
  EXPECT_NE(error_with<std::uint32_t>(60, ~0U), "");    // name bytes
  EXPECT_NE(error_with<std::uint64_t>(64, ~0ULL), "");  // checksums
  EXPECT_NE(error_with<std::uint64_t>(64, 1), "");
  EXPECT_NE(error_with<std::uint64_t>(64, 3), "");
}

TEST_F(Index, RefusesEveryLieInAnEntry) {
  EXPECT_NE(error_with<std::uint32_t>(kFirst + 0, ~0U), "");  // name outside
  EXPECT_NE(error_with<std::uint16_t>(kFirst + 4, 0xFFFF), "");
  EXPECT_NE(error_with<std::uint16_t>(kFirst + 4, 0), "");
  EXPECT_NE(error_with<std::uint32_t>(kSecond + 0, 0), "");  // both of one name
  EXPECT_NE(error_with<std::uint8_t>(kFirst + 6, 0), "");    // element type
  EXPECT_NE(error_with<std::uint8_t>(kFirst + 6, 200), "");
  EXPECT_NE(error_with<std::uint8_t>(kFirst + 7, 9), "");  // dimensions
  EXPECT_NE(error_with<std::int64_t>(kFirst + 8, -1), "");
  EXPECT_NE(error_with<std::int64_t>(kFirst + 8, 1LL << 62), "");
  EXPECT_NE(error_with<std::int64_t>(kFirst + 8, 9), "");     // fewer elements than stored
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 72, 10), "");  // begin == end
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 72, ~0ULL), "");
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 80, 11), "");
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 88, 0), "");      // inside the index
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 88, 12280), "");  // over the next one
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 88, ~0ULL - 10), "");
  EXPECT_NE(error_with<std::uint64_t>(kFirst + 96, ~0ULL), "");
  EXPECT_NE(error_with<std::uint64_t>(kSecond + 104, 0), "");  // checksums of the first
  EXPECT_NE(error_with<std::uint64_t>(kSecond + 104, ~0ULL), "");
}

TEST_F(Index, StatesTheVersionItNeeds) {
  EXPECT_MENTIONS(error_with<std::uint16_t>(8, 2), "format 2.1");
  EXPECT_MENTIONS(error_with<std::uint32_t>(12, 1), "features this program does not know");
  EXPECT_EQ(error_with<std::uint16_t>(10, 4),
            "");  // a later minor version adds nothing that must be understood
  EXPECT_MENTIONS(error_with<char>(0, 'x'), "not a checkpoint shard");
  EXPECT_NE(error_of([&] { (void)decode_index({}, "index"); }), "");
}

TEST(Names, StepFoldersHaveOneSpelling) {
  EXPECT_EQ(step_folder_name(1200, "a1b2c3d4"), "step-000001200.a1b2c3d4");
  EXPECT_EQ(parse_step_folder("step-000001200.a1b2c3d4")->step, 1200);
  EXPECT_EQ(parse_step_folder(step_folder_name(123456789012, "a1b2c3d4"))->step, 123456789012);
  for (const char* bad : {"step-1200.a1b2c3d4", "step-0000001200.a1b2c3d4", "step--00001200.a1b2c3d4",
                          "step-000001200", "step-000001200.a1b2c3d", "step-000001200.A1B2C3D4",
                          "step-00000120x.a1b2c3d4", "step-.a1b2c3d4", "Step-000001200.a1b2c3d4",
                          "step-000001200.a1b2c3d4.trash", "step-99999999999999999999.a1b2c3d4", ""}) {
    EXPECT_FALSE(parse_step_folder(bad).has_value()) << bad;
  }
  EXPECT_TRUE(is_save_id(new_save_id()));
  EXPECT_NE(new_save_id(), new_save_id());
}

}  // namespace
}  // namespace echelon::checkpoint
