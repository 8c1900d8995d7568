#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/launcher/launch.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/temp_dir.h"

// What all ranks conclude when one process (the last rank's) has made no progress while its connections live
// on.
namespace echelon {
namespace {

class LifeWatchOfThree : public ::testing::Test {
 protected:
  static int run(const std::filesystem::path& folder, const std::string& scenario) {
    return app::launch_local_ranks(3, {test::program("life_watch_rank"), folder.string(), scenario});
  }
  static std::string content(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  /// Ranks 0 and 1 end with code 7, nothing to add, and `words` in the error of their collective.
  void expect_verdict(const std::vector<std::string>& words) const {
    for (const char* rank : {"rank-0", "rank-1"}) {
      const std::string told = content(folder_.path() / rank);
      EXPECT_EQ(told.substr(0, 3), "7\n\n") << rank << ": " << told;
      for (const std::string& word : words)
        EXPECT_MENTIONS(told, word) << rank << ": " << word << " in: " << told;
    }
    const std::string record = content(folder_.path() / "peer-failure.txt");
    EXPECT_MENTIONS(record, words.front());
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "suspects.txt"));  // one process, not its node
  }
  test::TempDir folder_;
};

TEST_F(LifeWatchOfThree, ARankThatOthersWaitForShowsItsStackAndIsEnded) {
  EXPECT_EQ(run(folder_.path(), "asleep"), 7);
  expect_verdict({"rank 2 (", ") has made no progress while 2 ranks have waited for it for ",
                  "in step 5, reading data", "its stack: "});
  const std::string log = content(folder_.path() / "rank-2.log");
  EXPECT_MENTIONS(log, "the training thread's stack", "sleep",
                  "did not exit by itself after the verdict and is killed");
}

TEST_F(LifeWatchOfThree, AStoppedProcessIsFoundByItsSilenceAndLookedAtByANeighbor) {
  EXPECT_EQ(run(folder_.path(), "stopped"), 7);
  expect_verdict({"rank 2 (", ") has sent no heartbeat for ", "last it was in step ",
                  "is stopped by a signal (SIGSTOP)"});
}

TEST_F(LifeWatchOfThree, RanksThatEndInGoodOrderAccuseNobody) {
  EXPECT_EQ(run(folder_.path(), "fine"), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "peer-failure.txt"));
  for (const char* log : {"rank-0.log", "rank-1.log", "rank-2.log"})
    EXPECT_EQ(content(folder_.path() / log), "") << log;
}

}  // namespace
}  // namespace echelon
