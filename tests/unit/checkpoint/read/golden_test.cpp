// A checkpoint of every released format stays readable, and the format's description stays true.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <sstream>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "checkpoint/read/verify.h"
#include "support/places.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

const Path kFolder = Path(echelon::test::source_dir()) / "tests/golden";
const Path kGolden = kFolder / "checkpoint_1.0";

/// model/w of a golden checkpoint, of which every byte is sound.
std::array<float, 6> expect_golden(const Path& root) {
  const VerifyReport report = verify(root / "step-000000042.0a1b2c3d", VerifyDepth::kDeep, {});
  EXPECT_TRUE(report.damages.empty()) << report.damages.front().problem;
  EXPECT_EQ(report.step, 42);
  const Reader reader(root);
  EXPECT_EQ(reader.ranks(), 2);
  std::array<float, 6> w{};
  reader.read("model/w", 0, 6, std::as_writable_bytes(std::span(w)));
  EXPECT_EQ(w, (std::array<float, 6>{0, 1, 2, 3, 4, 5}));
  return w;
}

TEST(Golden, Format10StaysReadable) {
  (void)expect_golden(kGolden);
  const Reader reader(kGolden);
  EXPECT_EQ(reader.step(), 42);
  EXPECT_EQ(reader.trainer_state(), R"({"tokens":1000})");
  EXPECT_EQ(reader.attachment("recipe.yaml"), "run: {name: golden}\n");
  std::int64_t step = 0;
  reader.read("optim/step", 0, 1, std::as_writable_bytes(std::span(&step, 1)));
  EXPECT_EQ(step, 42);
}

/// What tests/golden/checkpoint_1.1 was made from; ECHELON_UPDATE_GOLDEN=1 makes the copy of a new version.
Path save_golden(const Path& into) {
  const std::vector<TensorInfo> tensors{{"model/w", DType::kF32, {2, 3}},
                                        {"optim/w/exp_avg", DType::kBF16, {2, 3}},
                                        {"optim/step", DType::kI64, {}}};
  const std::array<float, 6> w{0, 1, 2, 3, 4, 5};
  const std::array<std::uint16_t, 6> average{0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0xC0C0};
  const std::array<std::int64_t, 1> step{42};
  const auto part = [](const auto& all, std::size_t begin, std::size_t end) {
    return std::as_bytes(std::span(all).subspan(begin, end - begin));
  };
  const Path folder = into / "step-000000042.0a1b2c3d";
  std::filesystem::create_directories(folder);
  write_shard(folder, 0, 2, "0a1b2c3d",
              {{tensors[0], 0, 4, part(w, 0, 4)},
               {tensors[1], 0, 1, part(average, 0, 1)},
               {tensors[2], 0, 1, part(step, 0, 1)}});
  write_shard(folder, 1, 2, "0a1b2c3d",
              {{tensors[0], 4, 6, part(w, 4, 6)}, {tensors[1], 1, 6, part(average, 1, 6)}});
  commit(folder, {.step = 42,
                  .save_id = "0a1b2c3d",
                  .ranks = 2,
                  .tensors = tensors,
                  .trainer_state = R"({"tokens":1000})",
                  .attachments = {{"recipe.yaml", "run: {name: golden}\n"}}});
  return folder;
}

TEST(Golden, Format11StaysReadable) {
  const std::array<float, 6> w = expect_golden(kFolder / "checkpoint_1.1");
  const Reader reader(kFolder / "checkpoint_1.1");
  EXPECT_EQ(reader.fingerprint("model/w"), crc64(std::as_bytes(std::span(w))));
  EXPECT_EQ(reader.checksum("model/w"), crc32c(std::as_bytes(std::span(w))));
  EXPECT_EQ(Reader(kGolden).fingerprint("model/w"), std::nullopt);
}

TEST(Golden, TodaysWriterStillMakesTheSameShards) {
  const echelon::test::TempDir dir;
  if (std::getenv("ECHELON_UPDATE_GOLDEN") != nullptr) save_golden(kFolder / "checkpoint_1.1");
  const Path made = save_golden(dir.path());
  for (const char* shard : {"shard-00000-of-00002.h5", "shard-00001-of-00002.h5"})
    EXPECT_EQ(slurp(made / shard), slurp(kFolder / "checkpoint_1.1/step-000000042.0a1b2c3d" / shard))
        << shard;
}

/// Every dump line of the page, "00000010  89 45 ...  |..|", against the file it describes.
TEST(Golden, TheDumpInTheFormatPageIsOfTheGoldenShard) {
  const std::string shard = slurp(kGolden / "step-000000042.0a1b2c3d/shard-00000-of-00002.h5");
  std::istringstream page(slurp(Path(echelon::test::source_dir()) / "docs/checkpoint_format.md"));
  int lines = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.size() < 60 || line.find_first_not_of("0123456789abcdef") != 8 || line[60] != '|') continue;
    ++lines;
    const std::size_t at = std::stoul(line.substr(0, 8), nullptr, 16);
    std::istringstream bytes(line.substr(8, 51));
    std::string byte;
    for (std::size_t i = 0; bytes >> byte; ++i) {
      ASSERT_LT(at + i, shard.size());
      EXPECT_EQ(std::stoul(byte, nullptr, 16), static_cast<unsigned char>(shard[at + i]))
          << line << " byte " << i;
    }
  }
  EXPECT_GT(lines, 20);
}

}  // namespace
}  // namespace echelon::checkpoint
