#include "base/process/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/str.h"
#include "support/temp_dir.h"

namespace echelon {
namespace {

ProgramRun shell(const std::string& script, const ProgramOptions& options = {}) {
  return run_program({"sh", "-c", script}, options);
}

TEST(Program, GivesItsOutputAndExitCode) {
  const ProgramRun run = shell("echo out; echo err >&2; exit 7");
  EXPECT_TRUE(run.found);
  EXPECT_FALSE(run.good());
  EXPECT_EQ(run.status, 7);
  EXPECT_EQ(run.out, "out\n");
  EXPECT_EQ(run.err, "err\n");
  EXPECT_EQ(run.trouble("sh"), "sh exits with 7: err");
  EXPECT_TRUE(shell("true").good());
  EXPECT_EQ(shell("kill -9 $$").status, 137);
  EXPECT_EQ(shell("cat").out, "") << "its standard input is closed";
  EXPECT_EQ(shell("seq 100000").out.size(), 588'895U) << "more than a pipe holds";
}

TEST(Program, MayBeMissing) {
  const ProgramRun run = run_program({"no-such-program"}, 10);
  EXPECT_FALSE(run.found);
  EXPECT_FALSE(run.good());
  EXPECT_EQ(run.trouble("no-such-program"), "no-such-program is not in PATH");
  EXPECT_FALSE(run_program({"/dev/null"}, 10).found);
}

TEST(Program, EndsAtItsDeadlineWithAllThatItStarted) {
  const test::TempDir dir;
  const std::string number = (dir.path() / "pid").string();
  const ProgramRun run = shell(str("sleep 100 & echo $! > ", number, "; wait"), {.deadline_s = 0.5});
  EXPECT_TRUE(run.timed_out);
  EXPECT_EQ(run.status, 137);
  EXPECT_LT(run.seconds, 50);
  EXPECT_TRUE(run.trouble("sh").starts_with("sh did not answer within ")) << run.trouble("sh");
  pid_t sleeper = 0;
  std::ifstream(number) >> sleeper;
  ASSERT_GT(sleeper, 0);
  // Killed; who reaps an orphan takes a moment, or leaves it as a zombie.
  const auto state = [&] {
    std::ifstream file(str("/proc/", sleeper, "/stat"));
    std::string pid, name, letter;
    file >> pid >> name >> letter;
    return letter;
  };
  for (int i = 0; i < 1000 && !state().empty() && state() != "Z"; ++i) ::usleep(10000);
  EXPECT_TRUE(state().empty() || state() == "Z") << state();
}

TEST(Program, TellsItsProcessOnceItRuns) {
  pid_t process = 0;
  const ProgramRun run = shell("trap 'echo ends; exit 5' TERM; echo runs; while :; do sleep 0.01; done",
                               {.on_start = [&](pid_t started) { process = started; },
                                .on_output =
                                    [&](std::string_view text) {
                                      if (text == "runs\n") ::kill(process, SIGTERM);
                                    }});
  EXPECT_EQ(run.out, "runs\nends\n");
  EXPECT_EQ(run.status, 5);
  EXPECT_FALSE(run.timed_out);
}

TEST(Program, MayCloseItsStreamsAndGoOn) {
  EXPECT_TRUE(shell("exec >&- 2>&-; sleep 100", {.deadline_s = 0.5}).timed_out);
  EXPECT_EQ(shell("exec >&- 2>&-; sleep 0.1; exit 3").status, 3);
}

TEST(Program, IsCutOffOrEndedWhereItPrintsTooMuch) {
  const ProgramRun cut = shell("seq 100000; seq 100000 >&2; exit 4", {.most_output = 5000});
  EXPECT_EQ(cut.status, 4);
  EXPECT_FALSE(cut.overflowed);
  EXPECT_EQ(cut.out.size(), 5000U);
  EXPECT_EQ(cut.err.size(), 5000U);
  const ProgramRun ended = run_program({"yes"}, {.most_output = 5000, .killed_beyond = true});
  EXPECT_TRUE(ended.overflowed);
  EXPECT_FALSE(ended.good());
  EXPECT_EQ(ended.trouble("yes"), "yes prints without end");
  EXPECT_FALSE(shell("printf 12345", {.most_output = 5, .killed_beyond = true}).overflowed);
}

TEST(Program, SeesTheEnvironmentItIsGiven) {
  ::setenv("ECHELON_PROGRAM_TEST", "mine", 1);
  EXPECT_EQ(shell("echo $ECHELON_PROGRAM_TEST").out, "mine\n");
  EXPECT_EQ(shell("echo ${ECHELON_PROGRAM_TEST-none} $OTHER", {.environment = {"OTHER=a b"}}).out,
            "none a b\n");
  ::unsetenv("ECHELON_PROGRAM_TEST");
}

TEST(Program, HasAGroupOfItsOwnUnlessItSharesThatOfThisProcess) {
  const std::string script = "cut -d ' ' -f 5 /proc/$$/stat";
  EXPECT_NE(std::stoi(shell(script).out), ::getpgrp());
  EXPECT_EQ(std::stoi(shell(script, {.own_group = false}).out), ::getpgrp());
}

TEST(Program, CanPrintToStandardError) {
  testing::internal::CaptureStderr();
  const ProgramRun run = shell("echo out; echo err >&2", {.output = ProgramOptions::Output::kStandardError});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "out\nerr\n");
  EXPECT_EQ(run.out + run.err, "");
  EXPECT_TRUE(run.good());
}

}  // namespace
}  // namespace echelon
