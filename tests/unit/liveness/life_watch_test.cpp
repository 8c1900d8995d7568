// LifeWatch between processes of this machine, without MPI: for ThreadSanitizer, whose reports end a process
// with a code of its own. What it finds and says is tested in tests/dist/life_watch.cpp.
#include "liveness/life_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/files/fs.h"
#include "base/log.h"
#include "support/matches.h"
#include "support/temp_dir.h"
#include "support/variable.h"

#ifdef __SANITIZE_THREAD__
/// MPI's network library has a thread that a forked process has not, and that ThreadSanitizer misses there.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT: the sanitizer's name
  return "thread:ucs_pthread_create\n";
}
#endif

namespace echelon {
namespace {

using namespace std::chrono_literals;
constexpr int kRanks = 3;
constexpr int kWrong = 40;

/// Rank 0's blob reaches the others through a pipe: all that LifeWatch asks of a job.
class Pipes final : public Job {
 public:
  Pipes(JobInfo info, const std::vector<std::array<int, 2>>& pipes) : pipes_(pipes) {
    info_ = std::move(info);
  }
  std::vector<Blob> exchange(std::string_view, const Blob& mine) override {
    Blob first(4096);
    if (info_.rank == 0) {
      for (const auto& pipe : pipes_) EXPECT_EQ(write(pipe[1], mine.data(), mine.size()), std::ssize(mine));
      return {mine};
    }
    const ssize_t got = read(pipes_[static_cast<std::size_t>(info_.rank)][0], first.data(), first.size());
    first.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return {first};
  }
  void fence(std::string_view) override {}
  void abort(int, const std::string&) override {}
  void finish() override {}

 private:
  const std::vector<std::array<int, 2>>& pipes_;
};

enum class Ending { kInGoodOrder, kOneDies, kOneFails, kOneHangs, kOneIsCutOff, kAllAreSuspended };

/// Until the verdict. Nobody reads what this process logs, as if the disk of its log did not answer.
int hang(const ProcessWatch& links) {
  std::array<int, 2> full{};
  if (pipe2(full.data(), O_NONBLOCK) != 0) return kWrong;
  while (write(full[1], "full", 4) > 0) {
  }
  while (write(full[1], "", 1) > 0) {
  }
  if (fcntl(full[1], F_SETFL, 0) != 0 || dup2(full[1], STDERR_FILENO) < 0) return kWrong;
  log::show(log::Console::kAll);
  for (int wait = 0; wait < 1000 && !links.failure->text(); ++wait) std::this_thread::sleep_for(10ms);
  _exit(links.failure->text() ? 7 : kWrong);
}

/// Steps of training as LifeWatch sees them, until the end that is asked for or a verdict. The exit code.
int live(LifeWatch& life, const ProcessWatch& links, bool last, Ending ending) {
  const bool has_verdict = ending == Ending::kOneDies || ending == Ending::kOneHangs;
  const std::int64_t steps = has_verdict ? 3000 : 60;
  for (std::int64_t step = 1; step <= steps; ++step) {
    links.activity->begin_step(step);
    links.activity->enter(Doing::kForward, "layers.3");
    links.activity->issued({});
    std::this_thread::sleep_for(20ms);
    // The others wait for it in a collective.
    while (ending == Ending::kOneHangs && !last && step == 21 && !links.failure->text())
      std::this_thread::sleep_for(10ms);
    links.awaited->add((step % kRanks), 0.01);
    links.activity->done();
    links.activity->end_step(0.01);
    if (links.failure->text()) {
      (void)life.conclude(Error(Code::kPeer, "the collective ended"));
      return 7;
    }
    if (ending == Ending::kOneIsCutOff && step == 20) {
      if (last) raise(SIGSTOP);
      return life.conclude(Error(Code::kPeer, "the network")).error.is_reported() ? 7 : kWrong;
    }
    if (ending == Ending::kAllAreSuspended) {
      if (step == (last ? 20 : 50)) raise(SIGSTOP);  // so that rank 0 finds no beat of the last when it wakes
      continue;
    }
    if (!last || step < 20 || ending == Ending::kInGoodOrder) continue;
    if (ending == Ending::kOneDies) _exit(9);
    if (ending == Ending::kOneHangs) return hang(links);
    (void)life.conclude(Error(Code::kTraining, "the loss is not finite"));
    return 6;
  }
  return has_verdict ? kWrong : 0;
}

int rank_of(int rank, const std::vector<std::array<int, 2>>& pipes, const std::filesystem::path& logs,
            Ending ending) {
  JobInfo job{.rank = rank, .size = kRanks, .local_rank = rank, .local_size = kRanks, .host = "here"};
  job.hosts.assign(kRanks, "here");
  const bool stops = ending == Ending::kOneIsCutOff || ending == Ending::kAllAreSuspended;
  if (stops) job.hosts.back() = "there";
  job.host = job.hosts[static_cast<std::size_t>(rank)];
  const ProcessWatch links;
  Pipes pipes_of_job(job, pipes);
  ClusterOptions cluster;
  cluster.heartbeat_interval_s = 0.05;
  cluster.heartbeat_timeout_s = stops ? 4 : 20;  // longer than an error waits for a verdict otherwise
  if (ending == Ending::kOneHangs) cluster.timeout_s = 1;
  LifeWatch life({.cluster = cluster, .logs = logs, .on_verdict = {}}, pipes_of_job, links);
  return live(life, links, rank == kRanks - 1, ending);
}

/// As `scontrol suspend` and `resume` do, for longer than a rank may be silent.
void suspend(const std::vector<pid_t>& processes) {
  int status = 0;
  for (const pid_t process : processes) EXPECT_EQ(waitpid(process, &status, WUNTRACED), process);
  std::this_thread::sleep_for(5s);
  for (const pid_t process : processes) {
    kill(process, SIGCONT);
    std::this_thread::sleep_for(100ms);
  }
}

/// Exit codes by rank.
std::vector<int> run(Ending ending, const std::filesystem::path& logs) {
  std::vector<std::array<int, 2>> pipes(kRanks);
  for (auto& pipe : pipes) EXPECT_EQ(::pipe(pipe.data()), 0);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.push_back(fork());
    if (processes.back() == 0) std::exit(rank_of(rank, pipes, logs, ending));
  }
  if (ending == Ending::kAllAreSuspended) suspend(processes);
  std::vector<int> codes;
  for (const pid_t process : processes) {
    int status = 0;
    if (ending == Ending::kOneIsCutOff && process == processes.back()) kill(process, SIGKILL);
    EXPECT_EQ(waitpid(process, &status, 0), process);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  for (const auto& pipe : pipes) {
    close(pipe[0]);
    close(pipe[1]);
  }
  return codes;
}

std::vector<int> run(Ending ending) {
  const test::TempDir logs;
  return run(ending, logs.path());
}

TEST(LifeWatch, OfProcessesThatLeaveInGoodOrderSaysNothing) {
  EXPECT_EQ(run(Ending::kInGoodOrder), (std::vector<int>{0, 0, 0}));
}

TEST(LifeWatch, TellsTheOthersOfAProcessThatDies) {
  EXPECT_EQ(run(Ending::kOneDies), (std::vector<int>{7, 7, 9}));
}

// The batch script reads it, and starts the ranks again.
TEST(LifeWatch, RecordsWhoDiedInWhichStepOfWhichStart) {
  const test::TempDir logs;
  const test::Variable job("SLURM_JOB_ID", "17");
  const test::Variable requeues("SLURM_RESTART_COUNT", "2");
  const test::Variable restarts("ECHELON_RESTART_IN_PLACE", "3");
  const test::Variable token("ECHELON_NOTE_TOKEN", "5eed");
  EXPECT_EQ(run(Ending::kOneDies, logs.path()), (std::vector<int>{7, 7, 9}));
  const std::string text = fs::read_file(logs.path() / "peer-failure.txt", 1 << 20, Code::kUsage);
  EXPECT_TRUE(test::matches(text,
                            "[0-9]+\\.[0-9]{3} 17 2\\.3 rank 2 \\(here\\) has died: [^\n]*\n"
                            "failed [0-9]+\\.[0-9]{3} step [0-9]+ rank 2 node here suspect 0 token 5eed\n"))
      << text;
}

// The file server that it waits for may be that of its log.
TEST(LifeWatch, ShowsTheStackOfAProcessThatHangsAndCannotLog) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's _exit() flushes standard error, which nobody reads here";
#endif
  const test::TempDir logs;
  EXPECT_EQ(run(Ending::kOneHangs, logs.path()), (std::vector<int>{7, 7, 7}));
  EXPECT_MENTIONS(fs::read_file(logs.path() / "peer-failure.txt", 1 << 20, Code::kUsage), "; its stack: ");
}

// The network may tell its neighbors long before its heartbeats are missed.
TEST(LifeWatch, NamesTheNodeThatBrokeOthersCollectives) {
  const test::TempDir logs;
  EXPECT_EQ(run(Ending::kOneIsCutOff, logs.path()), (std::vector<int>{7, 7, -SIGKILL}));
  EXPECT_MENTIONS(fs::read_file(logs.path() / "suspects.txt", 1 << 20, Code::kUsage), "there");
}

TEST(LifeWatch, OfAJobThatIsSuspendedAsAWholeSaysNothing) {
  EXPECT_EQ(run(Ending::kAllAreSuspended), (std::vector<int>{0, 0, 0}));
}

// It says by itself what was wrong, and ends the job.
TEST(LifeWatch, OfAProcessThatFailsSaysNothing) {
  EXPECT_EQ(run(Ending::kOneFails), (std::vector<int>{0, 0, 6}));
}

}  // namespace
}  // namespace echelon
