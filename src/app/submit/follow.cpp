#include "app/submit/follow.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iostream>
#include <regex>
#include <thread>

#include "app/submit/program.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/slurm_text.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kBetweenLooks = std::chrono::seconds(1);
constexpr auto kPatience = std::chrono::minutes(10);

/// Reads a growing file from its start; the file need not exist yet.
class Tail {
 public:
  explicit Tail(std::filesystem::path path) : path_(std::move(path)) {}

  /// Prints what was appended since the last call.
  void print() {
    if (!file_.is_open()) file_.open(path_, std::ios::binary);
    if (!file_.is_open()) return;
    std::array<char, 65536> buffer{};
    for (;;) {
      file_.clear();  // resets the end of file of the last read
      file_.read(buffer.data(), buffer.size());
      if (file_.gcount() == 0) break;
      std::cout.write(buffer.data(), file_.gcount());
    }
    std::cout.flush();
    if (!std::cout)
      throw Error(Code::kEnvironment, "submit: cannot write to standard output; the job continues");
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
};

/// Asks Slurm for the job's status. Tolerates a controller that is busy or restarting.
class Watch {
 public:
  explicit Watch(std::string job) : job_(std::move(job)) {}

  /// The current status, or the last known one while Slurm does not answer.
  const JobStatus& look() {
    const ProgramRun result = run_command({"scontrol", "--oneliner", "show", "job", job_});
    if (result.status == 0) {
      status_ = parse_job(result.out);
      answered_ = Clock::now();
    } else if (result.err.find("Invalid job id") != result.err.npos) {
      throw Error(Code::kEnvironment, "Slurm no longer knows job ", job_, ": see its log for how it ended");
    } else if (Clock::now() - answered_ > kPatience) {
      throw Error(Code::kEnvironment, "Slurm has not answered for ", kPatience.count(), " minutes (",
                  printable(result.err), "); the job continues");
    }
    return status_;
  }

 private:
  std::string job_;
  JobStatus status_;
  Clock::time_point answered_ = Clock::now();
};

/// Failures are warnings, which `--quiet` shows too.
void tell(const std::string& job, const std::string& state, const JobStatus& status) {
  const std::string text = str("echelon: job ", job, " is ", state);
  if (status.is_stuck() || (status.is_over() && status.exit_status() != 0)) {
    log::warn(text);
  } else {
    log::info(text);
  }
  log::flush();
}

}  // namespace

bool JobStatus::is_over() const {
  static constexpr std::array kOver{"COMPLETED", "FAILED",        "CANCELLED", "TIMEOUT", "NODE_FAIL",
                                    "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"};
  return std::ranges::find(kOver, state) != kOver.end();
}

bool JobStatus::is_stuck() const {
  // Parts of reasons: "JobHeldUser", "JobHeldAdmin", "job_requeued_in_held_state" ...
  static constexpr std::array kStuck{"Held", "held", "DependencyNeverSatisfied", "PartitionNodeLimit",
                                     "PartitionTimeLimit"};
  return state == "PENDING" &&
         std::ranges::any_of(kStuck, [this](const char* part) { return reason.find(part) != reason.npos; });
}

int JobStatus::exit_status() const {
  if (!is_over()) return static_cast<int>(Code::kRequeue);
  if (exit_code != 0) return exit_code;
  if (signal != 0) return 128 + signal;
  return state == "COMPLETED" ? 0 : static_cast<int>(Code::kEnvironment);
}

JobStatus parse_job(const std::string& text) {
  static const std::regex kExit(R"((\d{1,3}):(\d{1,3}))");
  const SlurmRecord job = parse_slurm_record(text);
  JobStatus status{.state = job["JobState"], .reason = job["Reason"]};
  const std::string code = job["ExitCode"];
  std::smatch match;
  if (status.state.empty() || !std::regex_match(code, match, kExit))
    throw Error(Code::kEnvironment, "scontrol shows no job: '", printable(text), "'");
  status.exit_code = std::stoi(match[1]);
  status.signal = std::stoi(match[2]);
  return status;
}

int follow_job(const std::string& job, const std::filesystem::path& log) {
  Watch watch(job);
  Tail tail(log);
  std::string told;
  int final_looks = 0;
  for (;;) {
    const JobStatus& status = watch.look();
    tail.print();
    const std::string state =
        str(status.state, status.state == "PENDING" ? str(" (", status.reason, ")") : "");
    if (state != told && !state.empty()) tell(job, state, status);
    told = state;
    // Look three times in a row: a job that is being requeued briefly looks ended, and a log on a network
    // file system arrives late.
    final_looks = status.is_over() || status.is_stuck() ? final_looks + 1 : 0;
    if (final_looks == 3) return status.exit_status();
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace echelon::submit
