#include "bootstrap/job.h"

#include <gtest/gtest.h>

#include "base/net/node_layout.h"

namespace echelon {
namespace {

TEST(NodeLayout, GroupsRanksByHostInOrderOfFirstRank) {
  const std::vector<std::string> hosts = {"n1", "n0", "n1", "n0", "n2", "n1"};
  const JobInfo info = place_rank(5, hosts);
  EXPECT_EQ(info.rank, 5);
  EXPECT_EQ(info.size, 6);
  EXPECT_EQ(info.host, "n1");
  EXPECT_EQ(info.node, 0);
  EXPECT_EQ(info.local_rank, 2);
  EXPECT_EQ(info.local_size, 3);
  EXPECT_EQ(info.num_nodes, 3);
  EXPECT_EQ(place_rank(1, hosts).node, 1);
  EXPECT_EQ(place_rank(4, hosts).node, 2);
  EXPECT_EQ(place_rank(4, hosts).local_size, 1);
}

TEST(NodeLayout, HasOneNumberOfRanksWhereAllNodesHaveIt) {
  EXPECT_EQ(NodeLayout({"a", "a", "b", "b"}).ranks_of_each(), 2);
  EXPECT_EQ(NodeLayout({"a", "b", "a", "b"}).ranks_of_each(), 2);
  EXPECT_EQ(NodeLayout({"a"}).ranks_of_each(), 1);
  // Groups of the size of a rank's own node would be {0, 4} for rank 0, and {0, 2, 4, 6} for rank 4.
  EXPECT_EQ(NodeLayout({"a", "a", "a", "a", "b", "b", "c", "c"}).ranks_of_each(), std::nullopt);
}

TEST(SingleJob, IsACompleteJobOfOneRank) {
  const auto job = bootstrap(Launch::kSingle, 1.0);
  EXPECT_EQ(job->info().size, 1);
  EXPECT_EQ(job->info().hosts.size(), 1U);
  EXPECT_EQ(job->info().launcher, "single");
  const Blob mine(10, std::byte{4});
  EXPECT_EQ(job->exchange("card", mine), std::vector<Blob>{mine});
  job->fence("x");
  job->finish();
}

TEST(PmixVersion, BeginsWithTheNumber) {
  const std::string version = pmix_version();
  ASSERT_TRUE(version.starts_with("PMIx ")) << version;
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(version.at(5)))) << version;
}

}  // namespace
}  // namespace echelon
