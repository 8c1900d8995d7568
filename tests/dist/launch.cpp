#include "app/launcher/launch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "app/launcher/mpirun_talk.h"
#include "base/error.h"
#include "base/process/process.h"
#include "support/matches.h"
#include "support/places.h"
#include "support/refusal.h"
#include "support/temp_dir.h"
#include "support/variable.h"

namespace echelon {
namespace {

namespace stdfs = std::filesystem;
using app::launch_local_ranks;

std::string text_of(const stdfs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class Launch : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> rank(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {test::program("launch_rank"), folder_.string()});
    return arguments;
  }

  /// Runs the launcher in a process of its own with its streams in files, as a shell would.
  [[nodiscard]] pid_t start(int ranks, const std::vector<std::string>& arguments) const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const std::string out = stdout_.empty() ? (folder_ / "stdout").string() : stdout_;
    static_cast<void>(std::freopen(out.c_str(), "w", stdout));
    static_cast<void>(std::freopen((folder_ / "stderr").c_str(), "w", stderr));
    try {
      _exit(launch_local_ranks(ranks, rank(arguments)));
    } catch (const Error& error) {
      _exit(static_cast<int>(error.code()));
    }
  }
  [[nodiscard]] static int exit_code_of(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  [[nodiscard]] std::string rank_says(int number) const {
    return text_of(folder_ / ("rank-" + std::to_string(number)));
  }
  /// What the launcher says with this PATH, in which it must find nothing that it can start ranks with.
  [[nodiscard]] std::string refusal_with_path(const std::string& path) const {
    const test::Variable variable("PATH", path);
    return test::refusal(Code::kEnvironment, [&] { return launch_local_ranks(2, rank({"all", "0"})); });
  }
  /// Starts a launcher of two ranks whose mpirun only runs `script`.
  [[nodiscard]] pid_t start_with(const stdfs::path& name, const std::string& script) const {
    const stdfs::path mpirun = folder_ / name / "mpirun";
    stdfs::create_directory(mpirun.parent_path());
    std::ofstream(mpirun) << "#!/bin/sh\ncase $1 in --version) echo 'mpirun (Open MPI) 4.1.4'; exit;; esac\n"
                          << script;
    stdfs::permissions(mpirun, stdfs::perms::owner_all);
    const test::Variable path("PATH", mpirun.parent_path().string() + ":" + std::getenv("PATH"));
    return start(2, {"all", "0"});
  }
  void wait_until_ready(int ranks) const {
    for (int n = 0; n < 1000; ++n) {
      int ready = 0;
      for (int number = 0; number < ranks; ++number) ready += rank_says(number).starts_with("ready") ? 1 : 0;
      if (ready == ranks) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    FAIL() << "the ranks did not start";
  }

  [[nodiscard]] std::vector<pid_t> two_ranks() const {
    std::vector<pid_t> ranks;
    for (const int number : {0, 1}) ranks.push_back(std::atoi(rank_says(number).c_str() + 6));
    return ranks;
  }
  static void expect_gone(const std::vector<pid_t>& ranks) {
    for (const pid_t pid : ranks) {
      ASSERT_GT(pid, 0);
      bool gone = false;
      for (int n = 0; n < 500 && !gone; ++n) {
        gone = kill(pid, 0) != 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_TRUE(gone) << "rank process " << pid;
    }
  }

  test::TempDir temp_;
  const stdfs::path folder_ = temp_.path();
  std::string stdout_;  ///< of the launcher; "": a file
};

TEST_F(Launch, GivesBackTheExitCodeOfTheRanks) {
  EXPECT_EQ(launch_local_ranks(2, rank({"all", "0"})), 0);
  EXPECT_EQ(launch_local_ranks(2, rank({"all", "85"})), 85);
  EXPECT_EQ(launch_local_ranks(1, rank({"all", "5"})), 5);
}

TEST_F(Launch, OneFailingRankStopsTheOthersAndGivesItsCode) {
  EXPECT_EQ(launch_local_ranks(3, rank({"exit", "4", "1"})), 4);
}

TEST_F(Launch, ARankEndedByASignalIsNamed) {
  for (const int number : {SIGKILL, SIGSEGV}) {
    EXPECT_EQ(exit_code_of(start(3, {"raise", std::to_string(number), "2"})), 7);
    const std::string text = text_of(folder_ / "stderr");
    EXPECT_MENTIONS(text, "rank 2 was ended by signal " + std::to_string(number));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
}

TEST_F(Launch, PassesOutputThroughUnchanged) {
  EXPECT_EQ(exit_code_of(start(1, {"say"})), 0);
  EXPECT_EQ(text_of(folder_ / "stdout"), "out 0 of 1\n");
  EXPECT_EQ(text_of(folder_ / "stderr"), "err 0 of 1\n");
}

// A terminal shows a progress line while it is written, whatever version mpirun has.
TEST_F(Launch, HalfALineIsPassedOnAtOnceAndUnchanged) {
  const pid_t launcher = start(2, {"progress", "85"});
  wait_until_ready(2);
  const std::string expected = "step 1\rstep 2step 1\rstep 2";
  for (int n = 0; n < 500 && text_of(folder_ / "stderr") != expected; ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(text_of(folder_ / "stderr"), expected);
  kill(launcher, SIGTERM);
  EXPECT_EQ(exit_code_of(launcher), 85);
}

TEST_F(Launch, OutputThatNobodyTakesIsAnError) {
  stdout_ = "/dev/full";
  EXPECT_EQ(exit_code_of(start(1, {"flood", "100000"})), 3);
}

TEST_F(Launch, RanksDieWithAKilledMpirun) {
  const pid_t launcher = start(2, {"wait", "0"});
  wait_until_ready(2);
  const std::vector<pid_t> ranks = two_ranks();
  const auto rank = process_info(ranks[0]);
  ASSERT_TRUE(rank);
  kill(rank->parent, SIGKILL);
  EXPECT_EQ(exit_code_of(launcher), 7);
  expect_gone(ranks);
}

TEST_F(Launch, PassesEachSignalOnceToEveryRankAndWaits) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR2}) {
    const pid_t launcher = start(2, {"wait", "85"});
    wait_until_ready(2);
    kill(launcher, number);
    EXPECT_EQ(exit_code_of(launcher), 85);
    for (const int rank_number : {0, 1}) {
      EXPECT_EQ(rank_says(rank_number), "1 of signal " + std::to_string(number) + "\n");
    }
    for (const int rank_number : {0, 1}) stdfs::remove(folder_ / ("rank-" + std::to_string(rank_number)));
  }
}

TEST_F(Launch, RanksDieWithAKilledLauncher) {
  const pid_t launcher = start(2, {"wait", "0"});
  wait_until_ready(2);
  const std::vector<pid_t> ranks = two_ranks();
  kill(launcher, SIGKILL);
  EXPECT_EQ(exit_code_of(launcher), 1000 + SIGKILL);
  expect_gone(ranks);
}

// What the mpirun of Open MPI 5 adds to a failure, in whatever parts it is read.
TEST(MpirunTalk, IsTakenOutAndNothingElse) {
  const std::string dashes = std::string(74, '-') + "\n";
  const std::string talk = dashes +
                           "prterun noticed that process rank 2 with PID 9593 on node vm exited on\n" +
                           "signal 9 (Killed).\n" + dashes;
  const std::string kept = dashes + "There are not enough slots available\n" + dashes;
  const std::string warning = "[warn] Epoll MOD(1) on fd 27 failed. Old events were 6: Bad file descriptor\n";
  const std::string given = "step 1\rstep 2\n" + talk + warning + "-----\n[warn] x\n" + kept + warning +
                            "last" + talk + talk + "--";
  const std::string expected = "step 1\rstep 2\n-----\n[warn] x\n" + kept + "last" + talk + "--";
  for (std::size_t part = 1; part <= given.size(); ++part) {
    app::MpirunTalk filter;
    std::string passed;
    for (std::size_t at = 0; at < given.size(); at += part) passed += filter.pass(given.substr(at, part));
    EXPECT_EQ(passed + filter.rest(), expected) << part;
  }
}

TEST_F(Launch, SaysWhatToInstallWhereMpirunIsMissing) {
  const std::string text = refusal_with_path(folder_.string());
  EXPECT_MENTIONS(text, "openmpi-bin");
}

TEST_F(Launch, RefusesTheMpirunOfAnotherMpi) {
  std::ofstream(folder_ / "mpirun") << "#!/bin/sh\necho 'mpirun (HYDRA) 4.1'\n";
  stdfs::permissions(folder_ / "mpirun", stdfs::perms::owner_all);
  const std::string text = refusal_with_path(folder_.string() + ":" + std::getenv("PATH"));
  EXPECT_MENTIONS(text, "is not mpirun of Open MPI", "HYDRA");
}

TEST_F(Launch, EndsAnMpirunThatStandsStillWithoutRanks) {
  const std::string still = "while :; do sleep 1; done\n";
  const pid_t told = start_with("told", "trap '' TERM\n" + still);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until it takes signals
  const pid_t left = start_with("left", "PMIX_RANK=0 sleep 0.5 &\n" + still);
  kill(told, SIGTERM);
  EXPECT_EQ(exit_code_of(told), 3);
  EXPECT_EQ(exit_code_of(left), 3);
  EXPECT_MENTIONS(text_of(folder_ / "stderr"), "stood still", "TMPDIR");
}

TEST_F(Launch, AnMpirunThatFailsItselfIsAFaultOfTheEnvironment) {
  EXPECT_EQ(exit_code_of(start_with("failing", "exit 1\n")), 3);
}

TEST_F(Launch, RefusesAProgramThatIsNone) {
  EXPECT_THROW(static_cast<void>(launch_local_ranks(2, {(folder_ / "nothing").string()})), Error);
}

}  // namespace
}  // namespace echelon
