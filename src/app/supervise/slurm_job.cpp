#include "app/supervise/slurm_job.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/error.h"
#include "base/files/own_file.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/process/slurm_text.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "run/start_notes.h"

namespace echelon::supervise {
namespace {

constexpr double kPatience_s = 30;
constexpr double kPatienceWhileRanksWait_s = 3;
constexpr double kPatienceToGiveBack_s = 10;
constexpr std::uint64_t kMostBytesOfSuspects = std::uint64_t{16} << 20;

std::string required(const char* name) {
  const std::string value = environment_variable(name);
  if (value.empty())
    throw Error(Code::kEnvironment, "supervise: ", name,
                " is not set: expected to be the last command of a batch script, as in "
                "cluster/slurm/train.sbatch; `echelon submit` writes one");
  return value;
}

/// The number in a variable that Slurm sets; empty: there is none.
std::optional<std::int64_t> number_in(const char* name) {
  std::int64_t value = 0;
  if (!read_integer(environment_variable(name), value).empty() || value < 0) return std::nullopt;
  return value;
}

std::string output_of(const std::vector<std::string>& command, double patience_s = kPatience_s) {
  const ProgramRun run = run_program(command, patience_s);
  return run.good() ? run.out : "";
}

bool is_done(const std::vector<std::string>& command, double patience_s = kPatience_s) {
  return run_program(command, patience_s).good();
}

bool is_name(const std::string& text) {
  return std::ranges::all_of(text, belongs_in_name);
}

/// Each line's words; lines with anything else than names in the first `names` words are left out.
std::vector<Nodes> rows(const std::string& text, std::size_t words_per_line, std::size_t names) {
  std::vector<Nodes> found;
  for (const std::string& line : split(text, '\n')) {
    const Nodes row = mapped<std::string>(words_in(line), std::identity{});
    if (row.size() != words_per_line) continue;
    if (std::all_of(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(names), is_name))
      found.push_back(row);
  }
  return found;
}

Nodes host_names(const std::string& list, double patience_s) {
  if (list.empty()) return {};
  return mapped(rows(output_of({"scontrol", "show", "hostnames", list}, patience_s), 1, 1),
                [](const Nodes& row) { return row[0]; });
}

/// The first line without its end.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// this_job(), without what a task of an array has handed on: sbatch copies its environment into a job that
/// is submitted from there.
std::string own_number(const std::string& id) {
  if (!environment_variable("SLURM_ARRAY_JOB_ID").empty()) {
    const std::string listed = output_of({"squeue", "--noheader", "--jobs=" + id, "--format=%i"});
    if (first_line(listed) == id) {
      ::unsetenv("SLURM_ARRAY_JOB_ID");
      ::unsetenv("SLURM_ARRAY_TASK_ID");
    }
  }
  return this_job();
}

}  // namespace

SlurmJob::SlurmJob()
    : id_(required("SLURM_JOB_ID")),
      number_(own_number(id_)),
      partition_(environment_variable("SLURM_JOB_PARTITION")),
      own_node_(environment_variable("SLURMD_NODENAME")),
      requeues_(number_in("SLURM_RESTART_COUNT").value_or(0)) {
  const std::string list = required("SLURM_JOB_NODELIST");
  nodes_ = host_names(list, kPatience_s);
  if (nodes_.empty())
    throw Error(Code::kEnvironment, "supervise: scontrol names no nodes for '", printable(list), "'");
  node_count_ = number_in("SLURM_JOB_NUM_NODES").value_or(static_cast<std::int64_t>(nodes_.size()));
  const auto nodes = static_cast<std::int64_t>(nodes_.size());
  // Beside --ntasks, --ntasks-per-node is only the most that a node may have.
  const std::int64_t tasks =
      number_in("SLURM_NTASKS").value_or(number_in("SLURM_NTASKS_PER_NODE").value_or(1) * nodes);
  tasks_per_node_ = tasks % nodes == 0 ? tasks / nodes : 0;
}

void SlurmJob::update_nodes() {
  const std::string list = first_line(
      output_of({"squeue", "--noheader", "--jobs=" + id_, "--format=%N"}, kPatienceWhileRanksWait_s));
  const Nodes now = host_names(list, kPatienceWhileRanksWait_s);
  if (!now.empty()) nodes_ = now;
}

Nodes SlurmJob::answering_nodes() const {
  const std::string states = output_of({"sinfo", "--noheader", "--Node", "--partition=" + partition_,
                                        "--nodes=" + join(nodes_, ","), "--format=%N %T"},
                                       kPatienceWhileRanksWait_s);
  Nodes answering = nodes_;
  for (const Nodes& row : rows(states, 2, 1)) {
    if (!is_usable(row[1], true)) std::erase(answering, row[0]);
  }
  return answering;
}

std::optional<bool> SlurmJob::is_running() const {
  const std::string state =
      first_line(output_of({"squeue", "--noheader", "--jobs=" + number_, "--format=%T"}));
  return state.empty() ? std::nullopt : std::optional(state == "RUNNING");
}

bool SlurmJob::is_never_requeued() const {
  const SlurmRecord job = parse_slurm_record(output_of({"scontrol", "--oneliner", "show", "job", number_}));
  return job["Requeue"] == "0" || job["BatchFlag"] == "0";
}

std::optional<std::int64_t> SlurmJob::kill_wait_s() const {
  return slurm_seconds(parse_slurm_settings(output_of({"scontrol", "show", "config"}))["KillWait"]);
}

std::optional<SlurmJob::LeftOut> SlurmJob::left_out(const std::filesystem::path& logs,
                                                    const Nodes& before) const {
  std::string text;
  try {
    text = fs::read_own_file(logs / "suspects.txt", kMostBytesOfSuspects, Code::kEnvironment);
  } catch (const Error&) {
    text.clear();
  }
  if (text.empty() && before.empty()) return std::nullopt;
  std::vector<NodeState> partition;
  for (const Nodes& row :
       rows(output_of({"sinfo", "--noheader", "--Node", "--partition=" + partition_, "--format=%N %n %T"}), 3,
            2))
    partition.push_back({.name = row[0], .host = row[1], .state = row[2]});
  const std::string shown = output_of({"scontrol", "--oneliner", "show", "job", number_});
  if (shown.empty()) return std::nullopt;  // nobody knows what the user leaves out
  Nodes already = host_names(parse_slurm_record(shown)["ExcNodeList"], kPatience_s);
  std::erase_if(already, [&](const std::string& name) { return contains(before, name); });
  LeftOut out{.all = supervise::left_out(partition, already, parse_suspects(text), utc_now_s(), node_count_)};
  for (const std::string& name : out.all) {
    if (!contains(already, name)) out.suspects.push_back(name);
  }
  return out;
}

bool SlurmJob::requeue() const {
  return is_done({"scontrol", "requeue", number_});
}

bool SlurmJob::leave_out(const Nodes& nodes) const {
  return is_done({"scontrol", "update", "jobid=" + number_, "ExcNodeList=" + join(nodes, ",")});
}

bool SlurmJob::hold(const std::string& reason) const {
  (void)is_done({"scontrol", "update", "jobid=" + number_, "comment=held by echelon: " + reason});
  return is_done({"scontrol", "requeuehold", number_});
}

bool SlurmJob::keep_nodes(const Nodes& nodes) const {
  try {
    // scontrol leaves scripts in the current folder, which nobody needs.
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / str("echelon-", id_, "-", fs::random_hex());
    fs::make_directories(folder, Code::kEnvironment);
    const bool done = is_done({"env", "--chdir=" + folder.string(), "scontrol", "update", "jobid=" + id_,
                               "NodeList=" + join(nodes, ",")},
                              kPatienceToGiveBack_s);
    fs::remove_tree(folder, Code::kEnvironment);
    return done;
  } catch (const std::exception&) {  // also of a TMPDIR that is no folder
    return false;
  }
}

}  // namespace echelon::supervise
