#include "liveness/record.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/str.h"
#include "liveness/within.h"
#include "support/temp_dir.h"
#include "support/variable.h"

namespace echelon {
namespace {

constexpr const char* kFirst = "1000.5 17 0 rank 1 has \x1b[31mdied\n";
constexpr const char* kSecond = "failed 999.25 step 7 rank 1 node n1.cluster suspect 1 token 0123abcd\n";

std::optional<LostPeer> noted(const std::string& text, const std::string& start = "17 0",
                              const std::string& token = "0123abcd") {
  const test::TempDir logs;
  std::ofstream(logs.path() / "peer-failure.txt") << text;
  return noted_peer_failure(logs.path(), start, token);
}

TEST(NotedPeerFailure, IsTheOneOfThisStart) {
  const auto failure = noted(str(kFirst, kSecond));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->sentence, "rank 1 has \\x1b[31mdied");
  EXPECT_EQ(failure->failed_s, 999.25);
  EXPECT_EQ(failure->step, 7);
  EXPECT_EQ(failure->rank, 1);
  EXPECT_EQ(failure->host, "n1.cluster");
  EXPECT_TRUE(failure->node_suspect);
  EXPECT_EQ(noted(str(kFirst, kSecond), "17 0.1"), std::nullopt) << "of the start before";
  EXPECT_EQ(noted(str(kFirst, kSecond), "18 0"), std::nullopt) << "of another job";
  EXPECT_EQ(noted(str(kFirst, kSecond), "17 0", "0123abce"), std::nullopt) << "of somebody else";
  EXPECT_EQ(noted(str(kFirst, kSecond), "17 0", ""), std::nullopt);
  const test::TempDir empty;
  EXPECT_EQ(noted_peer_failure(empty.path(), "17 0", "0123abcd"), std::nullopt);
  EXPECT_EQ(noted_peer_failure(empty.path() / "none", "17 0", "0123abcd"), std::nullopt);
}

TEST(NotedPeerFailure, IsWhole) {
  EXPECT_TRUE(noted(str(kFirst, "failed 999 step - rank 0 node n1 suspect 0 token 0123abcd\n")));
  for (const char* torn : {"", "failed 999", "failed x step 7 rank 1 node n1 suspect 0 token 0123abcd\n",
                           "failed 999 step seven rank 1 node n1 suspect 0 token 0123abcd\n",
                           "failed 999 step 7 rank -1 node n1 suspect 0 token 0123abcd\n",
                           "failed 999 step 7 rank 1 node n1[$(id)] suspect 0 token 0123abcd\n",
                           "failed 999 step 7 rank 1 node n1 suspect 0\n",
                           "failed 999 step 7 rank 1 node n1 suspect 0 token 0123abcd more\n"})
    EXPECT_EQ(noted(str(kFirst, torn)), std::nullopt) << torn;
}

TEST(NotedPeerFailure, IsReadAsARankWroteIt) {
  const test::TempDir logs;
  const test::Variable job("SLURM_JOB_ID", "17");
  const test::Variable restarts("ECHELON_RESTART_IN_PLACE", "2");
  const test::Variable token("ECHELON_NOTE_TOKEN", "0123abcd");
  const test::Variable requeues("SLURM_RESTART_COUNT", "3");
  const LostPeer failure{
      .sentence = "node n1 is gone", .failed_s = 999.5, .step = 7, .rank = 3, .host = "n1"};
  note_peer_failure(logs.path(), failure);
  EXPECT_EQ(noted_peer_failure(logs.path(), "17 3.2", "0123abcd"), failure);
}

// As a file server that has lost the folder does: what asks it throws on a thread that nobody catches from.
TEST(PeerFailure, ThatCannotBeNotedIsAWarning) {
  const std::filesystem::path logs = std::string(300, 'x');
  EXPECT_NO_THROW(note_peer_failure(logs, {.sentence = "rank 0 is silent", .certain = false}));
  EXPECT_NO_THROW(note_suspect(logs, "n1", "rank 0 is silent"));
  bool over = false;
  run_within(
      60, [] { throw std::filesystem::filesystem_error("ls", std::make_error_code(std::errc::io_error)); });
  run_within(60, [&over] { over = true; });
  EXPECT_TRUE(over);
}

}  // namespace
}  // namespace echelon
