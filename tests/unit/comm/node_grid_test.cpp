#include "comm/node_grid.h"

#include <gtest/gtest.h>

namespace echelon::test {
namespace {

TEST(NodeGrid, IsOfNodesOfEquallyManyConsecutiveRanks) {
  EXPECT_EQ(NodeGrid::of({0, 0, 0, 1, 1, 1}), (NodeGrid{2, 3}));
  EXPECT_EQ(NodeGrid::of({4, 4, 4, 4, 0, 0, 0, 0, 2, 2, 2, 2}), (NodeGrid{3, 4}));
  const std::vector<std::vector<int>> flat{{0},
                                           {0, 0, 0, 0},
                                           {0, 1, 2, 3},
                                           {0, 0, 1, 1},                  // nothing is saved
                                           {0, 0, 0, 1, 1},               // unlike sizes
                                           {0, 0, 0, 1, 1, 2},            // a border within
                                           {0, 1, 0, 1, 0, 1},            // in turns
                                           {0, 0, 0, 1, 1, 1, 0, 0, 0}};  // twice on one node
  for (const auto& node_of : flat)
    EXPECT_EQ(NodeGrid::of(node_of), (NodeGrid{1, static_cast<int>(node_of.size())}));
}

TEST(NodeGrid, CountsWhatARankSends) {
  const NodeGrid grid{4, 8};
  EXPECT_EQ(grid.bytes_within(100), 4U * 7 * 100 * 2);
  EXPECT_EQ(grid.bytes_between(100), 3U * 100 * 4);
  // A quarter of what an exchange among all would send between nodes.
  EXPECT_EQ(grid.bytes_between(100) * 4, 3U * 8 * 100 * 2);
  EXPECT_EQ(grid.scratch_bytes(100), 32U * 100 * 2 + 4U * 100 * 4);
  EXPECT_EQ((NodeGrid{1, 8}).scratch_bytes(100), 8U * 100 * 2);
  EXPECT_EQ((NodeGrid{1, 1}).scratch_bytes(100), 0U);
}

}  // namespace
}  // namespace echelon::test
