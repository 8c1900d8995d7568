// A checkpoint of every released format stays readable, and the format's description stays true.
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "checkpoint/verify.h"
#include "unit/checkpoint/example.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

const Path kGolden = Path(ECHELON_SOURCE_DIR) / "tests/golden/checkpoint_1.0";

TEST(Golden, Format10StaysReadable) {
  const VerifyReport report = verify(kGolden / "step-000000042.0a1b2c3d", VerifyDepth::kDeep, {});
  EXPECT_TRUE(report.damages.empty()) << report.damages.front().problem;
  const Reader reader(kGolden);
  EXPECT_EQ(reader.step(), 42);
  EXPECT_EQ(reader.ranks(), 2);
  EXPECT_EQ(reader.trainer_state(), R"({"tokens":1000})");
  EXPECT_EQ(reader.attachment("recipe.yaml"), "run: {name: golden}\n");
  std::array<float, 6> w{};
  reader.read("model/w", 0, 6, std::as_writable_bytes(std::span(w)));
  EXPECT_EQ(w, (std::array<float, 6>{0, 1, 2, 3, 4, 5}));
  std::int64_t step = 0;
  reader.read("optim/step", 0, 1, std::as_writable_bytes(std::span(&step, 1)));
  EXPECT_EQ(step, 42);
}

/// Every dump line of the page, "00000010  89 45 ...  |..|", against the file it describes.
TEST(Golden, TheDumpInTheFormatPageIsOfTheGoldenShard) {
  const std::string shard = slurp(kGolden / "step-000000042.0a1b2c3d/shard-00000-of-00002.h5");
  std::istringstream page(slurp(Path(ECHELON_SOURCE_DIR) / "docs/checkpoint_format.md"));
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
