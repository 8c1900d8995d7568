#include <gtest/gtest.h>

#include <fstream>

#include "app/launcher/launch.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

class Divergence : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Divergence, ::testing::Values(2, 3));

TEST_P(Divergence, RanksThatRunDifferentModulesAreToldWhich) {
  const test::TempDir folder;
  EXPECT_EQ(
      app::launch_local_ranks(GetParam(), {test::program("sharded_divergence_rank"), folder.path().string()}),
      7);
  for (int rank = 0; rank < GetParam(); ++rank) {
    std::ifstream file(folder.path() / ("rank-" + std::to_string(rank)));
    std::string code;
    std::string text;
    std::getline(file, code);
    std::getline(file, text);
    EXPECT_EQ(code, "7") << text;
    const std::size_t first = text.find("'layer.");  // the two modules by name
    const std::size_t second = text.find("'layer.", first + 1);
    ASSERT_NE(second, std::string::npos) << text;
    EXPECT_NE(text.substr(first, 9), text.substr(second, 9)) << text;
    EXPECT_MENTIONS(text, "rank " + std::to_string(GetParam() - 1));
  }
}

}  // namespace
}  // namespace echelon
