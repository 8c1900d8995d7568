// Runs of two to four real processes that save, killed at every named point of a save, each rank in turn, and
// at any moment: in the long form more than five hundred times. After each kill the next start must find what
// had been committed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "checkpoint/folder/run_folder.h"
#include "support/long_form.h"
#include "support/places.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/kill/save_rank.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

constexpr int kMostKills = 170;     ///< of each number of ranks
constexpr std::int64_t kSteps = 3;  ///< saves of one start

/// Places where a rank can be told to die, and how often it comes there in a start, about.
struct Point {
  const char* name;
  bool only_rank_0;
  int passes;
};
constexpr std::array<Point, 12> kPoints{{{"folder", false, 3},
                                         {"reserved", false, 3},
                                         {"staged", false, 3},
                                         {"window", false, 3},
                                         {"index", false, 3},
                                         {"flushed", false, 3},
                                         {"named", false, 3},
                                         {"durable", false, 3},
                                         {"publish", true, 9},
                                         {"publish", true, 9},
                                         {"committed", true, 3},
                                         {"aside", true, 1}}};

/// The ranks of one start of a run.
class Job {
 public:
  /// `kill_point`: as in ECHELON_KILL_POINT; empty: none.
  Job(const TinyRun& run, int attempt, std::int64_t first, const std::string& kill_point) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    said_ = ends[0];
    for (int rank = 0; rank < run.ranks; ++rank) spawn(run, rank, attempt, first, kill_point, ends[1]);
    ::close(ends[1]);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    kill_all();
    ::close(said_);
  }

  void kill(int rank) const {
    const pid_t pid = pids_[static_cast<std::size_t>(rank)];
    if (pid > 0) ::kill(pid, SIGKILL);
  }
  void kill_all() {
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      kill(rank);
      (void)wait(rank);
    }
  }
  /// Waits for the end of a rank and returns what waitpid(2) says.
  int wait(int rank) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    int& status = statuses_[static_cast<std::size_t>(rank)];
    if (pid > 0) ::waitpid(pid, &status, 0);
    pid = 0;
    return status;
  }
  /// After the end of all: the steps that rank 0 had seen committed.
  [[nodiscard]] std::set<std::int64_t> committed() const {
    std::string text;
    char part[256];
    for (ssize_t n = 0; (n = ::read(said_, part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(n));
    std::istringstream lines(text);
    return {std::istream_iterator<std::int64_t>(lines), {}};
  }

 private:
  void spawn(const TinyRun& run, int rank, int attempt, std::int64_t first, const std::string& kill_point,
             int out) {
    const std::string program = echelon::test::program("save_rank");
    std::vector<std::string> words{program,
                                   run.root.string(),
                                   std::to_string(rank),
                                   std::to_string(run.ranks),
                                   std::to_string(attempt),
                                   std::to_string(first),
                                   std::to_string(kSteps)};
    std::vector<std::string> variables{str("PMIX_RANK=", rank), "ECHELON_KILL_POINT=" + kill_point};
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> found;
      for (std::string& text : texts) found.push_back(text.data());
      found.push_back(nullptr);
      return found;
    };
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    // What ranks say whose neighbor was killed is of no interest.
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    if (::posix_spawn(&pid, program.c_str(), &files, nullptr, pointers(words).data(),
                      pointers(variables).data()) != 0)
      throw std::runtime_error("cannot start " + program);
    ::posix_spawn_file_actions_destroy(&files);
    pids_.push_back(pid);
    statuses_.push_back(0);
  }

  int said_ = -1;
  std::vector<pid_t> pids_;
  std::vector<int> statuses_;
};

bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/// What a run has to show, over all its starts.
struct Record {
  std::set<std::int64_t> promised;  ///< rank 0 had seen them committed
  std::int64_t newest = 0;          ///< found after the last start

  /// How the folder breaks the promise, or "".
  std::string look(const TinyRun& run) {
    std::set<std::int64_t> found;
    for (const Found& step : list(run.checkpoints())) {
      if (!step.problem.empty()) return step.problem;
      if (!step.committed) continue;
      if (const std::string wrong = TinyRun::wrong_in(step.folder); !wrong.empty()) return wrong;
      found.insert(step.step);
    }
    std::set<std::int64_t> all = found;
    all.insert(promised.begin(), promised.end());
    std::int64_t rank = 0;
    for (auto step = all.rbegin(); step != all.rend() && rank < kKept; ++step, ++rank) {
      if (!found.contains(*step)) return str("step ", *step, " was committed and is gone");
    }
    if (!found.empty() && Reader(run.root).step() != *found.rbegin()) return "opens another than the newest";
    newest = found.empty() ? 0 : *found.rbegin();
    return "";
  }
};

/// One start and its kill. Returns the point at which a rank died, "anywhere", or "" when all came to an end.
std::string start_and_kill(const TinyRun& run, int attempt, Record& record, std::mt19937_64& random) {
  const Point& point = kPoints[static_cast<std::size_t>(attempt) % kPoints.size()];
  const bool named = random() % 3 != 0;
  const int victim =
      named && point.only_rank_0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(run.ranks));
  const int nth = 1 + static_cast<int>(random() % static_cast<unsigned>(point.passes));
  Job job(run, attempt, record.newest + 1, named ? str(point.name, ':', victim, ':', nth) : "");
  const auto pause = [&](std::uint64_t most_us) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most_us));
  };
  if (!named) {
    pause(60000);
    job.kill(victim);
  }
  const bool died = was_killed(job.wait(victim));
  // The launcher ends the others, at once or a moment later.
  if (random() % 2 == 0) pause(10000);
  job.kill_all();
  const auto committed = job.committed();
  record.promised.insert(committed.begin(), committed.end());
  return !died ? "" : named ? point.name : "anywhere";
}

class KillLoop : public testing::TestWithParam<int> {};

TEST_P(KillLoop, TakesNothingThatWasCommitted) {
  const TempDir dir;
  const TinyRun run{.root = dir.path() / "run", .ranks = GetParam()};
  std::mt19937_64 random(static_cast<unsigned>(run.ranks));
  std::map<std::string, int> kills;
  Record record;
  const int wanted = echelon::test::long_form() ? kMostKills : 50;
  const auto met_everywhere = [&] {
    return kills["anywhere"] >= wanted / 10 &&
           std::ranges::all_of(kPoints, [&](const Point& point) { return kills[point.name] >= 2; });
  };
  int attempt = 0;
  for (int died = 0; (died < wanted || !met_everywhere()) && attempt < 3 * kMostKills; ++attempt) {
    const std::string point = start_and_kill(run, attempt, record, random);
    ++kills[point];
    if (!point.empty()) ++died;
    ASSERT_EQ(record.look(run), "") << "after attempt " << attempt << ", killed at '" << point << "'";
  }
  EXPECT_TRUE(met_everywhere()) << ::testing::PrintToString(kills);
  EXPECT_GE(record.newest, wanted / 10) << "hardly a save came to its end";
  // A last start that nobody disturbs ends, and cleans up.
  Job job(run, attempt, record.newest + 1, "");
  for (int rank = 0; rank < run.ranks; ++rank) EXPECT_EQ(job.wait(rank), 0) << "rank " << rank;
  ASSERT_EQ(record.look(run), "");
  const std::vector<std::string> names = names_in(run.checkpoints());
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kKept)) << join(names, ", ");
}

INSTANTIATE_TEST_SUITE_P(Ranks, KillLoop, testing::Values(2, 3, 4));

}  // namespace
}  // namespace echelon::checkpoint
