#include "app/supervise/supervisor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <span>
#include <sstream>
#include <thread>

#include "app/supervise/run_steps.h"
#include "base/error.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/net/handshake.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "run/job_end.h"

namespace echelon::supervise {
namespace {

constexpr double kBetweenLooks_s = 0.2;
constexpr double kLastWords_s = 5;  ///< of the ranks of a step that lost a node and so does not end
constexpr double kUntilSlurmEndsUs_s = 300;
constexpr double kBetweenQuestions_s = 2;
/// At most: a restart of the controller, during which it also refuses, or a second one that takes over.
constexpr int kControllerIsAway_min = 10;
constexpr std::uint64_t kMostBytesOfNotes = std::uint64_t{16} << 20;

}  // namespace

Supervisor::Supervisor(Options options) : options_(std::move(options)) {
  // What others could write to would decide what this job does.
  const mode_t before = ::umask(0);
  ::umask(before | S_IWGRP | S_IWOTH);
  started_at_ = fixed(utc_now_s(), 6);
  // A program inside of a container that srun makes cannot be looked for here.
  if (options_.srun_options.empty() && find_program(options_.program[0]).empty())
    throw Error(Code::kEnvironment, "job ", job_.number(), " cannot start: ", options_.program[0],
                " does not exist on ", host_name(), " or is not executable; name one that all nodes see");
  facts_.requeues = job_.requeues();
  check_nodes();
  ask_program();
  begin_notes();
}

void Supervisor::check_nodes() {
  const auto nodes = static_cast<std::int64_t>(job_.nodes().size());
  facts_.wanted_nodes = nodes - options_.spare_nodes;
  if (facts_.wanted_nodes < 1)
    throw Error(Code::kUsage, "job ", job_.number(), " cannot start: --spare-nodes (ECHELON_SPARE_NODES) is ",
                options_.spare_nodes, ", and the job has ", nodes, " nodes; expected at least one more");
  if (job_.tasks_per_node() == 0 && options_.spare_nodes > 0)
    throw Error(Code::kUsage, "job ", job_.number(),
                " cannot start: spare nodes need as many tasks on each node: use "
                "--ntasks-per-node in place of --ntasks");
  if (job_.tasks_per_node() == 0) options_.max_restarts = 0;
  on_ = {job_.nodes().begin(), job_.nodes().begin() + facts_.wanted_nodes};
}

/// What `echelon submit` writes into its scripts, for one that was written by hand.
void Supervisor::ask_program() {
  if (!options_.run_dir.empty()) return;
  const std::vector<std::string>& program = options_.program;
  const auto answer = [&](std::vector<std::string> question, bool required) {
    std::vector<std::string> command{program[0], "validate"};
    command.insert(command.end(), program.begin() + std::min<std::ptrdiff_t>(2, std::ssize(program)),
                   program.end());
    command.insert(command.end(), question.begin(), question.end());
    const ProgramRun run = run_program(command, 300);
    if (run.good()) return run.out;
    if (!required) return std::string();  // the ranks say what is wrong
    log::error(run.err);
    throw Error::already_reported(run.status == 2 ? Code::kUsage : Code::kEnvironment);
  };
  options_.run_dir = answer({"--value", "run.dir"}, true);
  while (options_.run_dir.ends_with('\n')) options_.run_dir.pop_back();
  options_.allow_foreign_folder = answer({"--value", "run.allow_foreign_folder"}, true).starts_with("true");
  if (options_.max_restarts == 0) return;
  std::istringstream counts(answer({"--ranks", str(facts_.wanted_nodes * job_.tasks_per_node()),
                                    "--fewer-nodes", str(job_.tasks_per_node())},
                                   false));
  for (std::int64_t count = 0; counts >> count;) options_.fewer_nodes.push_back(count);
}

/// Job numbers may come back after years: the first start of a job knows nothing of others.
void Supervisor::begin_notes() {
  const std::filesystem::path file = start_notes_file(options_.run_dir, job_.number());
  try {
    fs::make_directories(logs(), Code::kUsage);
    if (!options_.allow_foreign_folder) {
      for (const std::filesystem::path& folder : {std::filesystem::path(options_.run_dir), logs()})
        fs::require_unshared_folder(folder, Code::kUsage, "set run.allow_foreign_folder=true");
    }
    if (job_.requeues() > 0 && std::filesystem::is_regular_file(std::filesystem::symlink_status(file))) {
      notes_ = start_notes(fs::read_own_file(file, kMostBytesOfNotes, Code::kEnvironment));
    } else {
      fs::publish_file(file, "", Code::kEnvironment);
      fs::remove_tree(logs() / "peer-failure.txt", Code::kEnvironment);
    }
  } catch (const Error& error) {
    throw Error(error.code(), "job ", job_.number(), " cannot start: ", error.what(),
                "; set run.dir to a folder of your own that all nodes can write to");
  }
}

int Supervisor::run() {
  ask_slurm();  // before the first state, because it may take long, and a stop may be requested meanwhile
  facts_.committed_step = committed_step(options_.run_dir);
  facts_.fruitless_starts = fruitless_starts(notes_, facts_.committed_step);
  for (JobState state = JobState::kStarting;;) {
    facts_.stopping = stop_.requested() != nullptr;
    const NextState next = next_job_state(state, facts_, options_);
    facts_.status = next.status;
    const bool restarts = state == JobState::kClearing && next.state == JobState::kRunning;
    state = next.state;
    if (state == JobState::kRequeued) {
      requeue(next.text);
      return next.status;
    }
    if (state == JobState::kHeld) {
      hold(next.text);
      return next.status;
    }
    if (!next.text.empty()) say(next.text);
    if (state == JobState::kRunning) {
      restarts ? restart() : start_ranks();
      watch_ranks();
    } else if (state == JobState::kLost) {
      note_loss();
    } else if (state == JobState::kClearing) {
      clear();
    } else {
      end_ranks(kLastWords_s);
      if (state == JobState::kEnded) return next.status;
      look_at_queue();
    }
  }
}

void Supervisor::ask_slurm() {
  // How PMIx exchanges and barriers travel between nodes. With Slurm's default, `mixed`, ranks on busy nodes
  // now and then leave MPI_Init while others are still in it, which crash (open-mpi/ompi#12495). With `tree`,
  // the addresses that MPI publishes after our own exchange do not arrive. (Slurm 22.05, PMIx 4.2, Open
  // MPI 4.1)
  variables_["SLURM_PMIX_FENCE"] = environment_variable("SLURM_PMIX_FENCE", "ring");
  if (const auto kill_wait_s = job_.kill_wait_s()) variables_["ECHELON_KILL_WAIT_S"] = str(*kill_wait_s);
  if (std::getenv("SLURM_JOB_END_TIME") == nullptr) {
    if (const auto end_s = ask_job_end(); end_s && std::isfinite(*end_s))
      variables_["SLURM_JOB_END_TIME"] = str(static_cast<std::int64_t>(*end_s));
  }
}

void Supervisor::start_ranks() {
  note({.kind = StartNote::Kind::kStart, .step = committed_step(options_.run_dir)});
  // The variables of a restart may be those of a job that submitted this one.
  begin_start({{"ECHELON_RESTART_IN_PLACE", ""},
               {"ECHELON_FAILED_AT", ""},
               {"ECHELON_RESTART_CAUSE", ""},
               {"ECHELON_LEFT_OUT", ""},
               {"ECHELON_NEW_NODES", ""}});
}

void Supervisor::begin_start(const std::map<std::string, std::string>& more) {
  const Secret secret = new_secret();
  token_.assign(secret.begin(), secret.end());
  lost_.reset();
  opening_ = last_opening(options_.run_dir);
  std::map<std::string, std::string> variables = variables_;
  variables.insert(more.begin(), more.end());
  variables["ECHELON_STARTED_AT"] = started_at_;
  variables["ECHELON_NOTE_TOKEN"] = token_;
  variables["SLURM_EXIT_ERROR"] = str(kSrunFailed);
  const StepPlace place{
      .nodes = on_, .tasks_per_node = job_.tasks_per_node(), .in_place = facts_.restarts > 0};
  step_.emplace(rank_command(place, options_.srun_options, options_.program), environment_with(variables));
}

/// Returns when all ranks have ended, or the ranks' own watch has told of a failure: Slurm itself waits much
/// longer for a dead node.
void Supervisor::watch_ranks() {
  while (!step_->wait(kBetweenLooks_s)) {
    // Slurm's own signal to the ranks may have come before there were any.
    if (stop_.requested() != nullptr) step_->ask_to_stop();
    if (!has_failed()) continue;
    facts_.status = static_cast<int>(Code::kPeer);
    return;
  }
  facts_.status = step_->status();
  // Srun says 0 as well of a step that it gave up before any task ran.
  if (facts_.status == 0 && opening_ && opening_ == last_opening(options_.run_dir)) {
    say("started no rank, although srun reports success");
    facts_.status = kSrunFailed;
  }
  // The note may be newer than the last look, and what srun makes of several ranks' codes may hide their 7.
  if (has_failed() && facts_.status != 0) facts_.status = static_cast<int>(Code::kPeer);
}

bool Supervisor::has_failed() {
  if (options_.max_restarts == 0) return false;
  const std::string in_place = facts_.restarts > 0 ? str(".", facts_.restarts) : "";
  lost_ = noted_peer_failure(logs(), str(job_.id(), " ", job_.requeues(), in_place), token_);
  if (lost_) lost_->host = node_of_host(lost_->host, job_.nodes());
  return lost_.has_value();
}

void Supervisor::note_loss() {
  StartNote loss{.kind = StartNote::Kind::kLost};
  if (lost_) {
    loss.step = lost_->step;
    loss.rank = lost_->rank;
    loss.node = lost_->host;
  }
  note(loss);
  failures_ = failures_at_step(notes_);
  facts_.failures_at_step = failures_.all;
  facts_.lost_step = loss.step;
  facts_.cause = lost_ ? lost_->sentence : "";
}

void Supervisor::clear() {
  job_.update_nodes();
  ClearRequest request{.asked = job_.answering_nodes(),
                       .before = on_,
                       .wanted = facts_.wanted_nodes,
                       .all = failures_.of_same > 1,  // the node may be left out, too
                       .started_at = started_at_};
  if (lost_ && lost_->node_suspect) std::erase(request.asked, lost_->host);
  cleared_ = clear_nodes(request);
  if (failures_.of_same > 1 && lost_ && cleared_.clear.erase(lost_->host) > 0)
    note_suspect(logs(), lost_->host, str("failed ", failures_.of_same, " times at step ", lost_->step));
  facts_.clear_nodes = std::ssize(cleared_.clear);
  facts_.enough_nodes =
      nodes_of_next_start(facts_.clear_nodes, facts_.wanted_nodes, options_.fewer_nodes) > 0;
}

void Supervisor::restart() {
  const Nodes before = on_;
  on_ = choose_nodes(job_.nodes(), before, cleared_.clear, facts_.wanted_nodes, options_.fewer_nodes);
  give_back_unclear_nodes();
  end_ranks(0);
  Nodes left_out = before;
  std::erase_if(left_out, [&](const std::string& name) { return contains(on_, name); });
  const bool any_new = std::ranges::any_of(on_, [&](const auto& name) { return !contains(before, name); });
  const std::string reason = reason_to_go_on(facts_);
  ++facts_.restarts;
  say(str(reason, " and starts again in place on ", join(on_, ","), left_out.empty() ? "" : " without ",
          join(left_out, ","), " (restart ", facts_.restarts, " of at most ", options_.max_restarts, ")"));
  started_at_ = fixed(utc_now_s(), 6);
  const std::map<std::string, std::string> more{
      {"ECHELON_RESTART_IN_PLACE", str(facts_.restarts)},
      {"ECHELON_FAILED_AT", lost_ ? in_thousandths(lost_->failed_s) : started_at_},
      {"ECHELON_RESTART_CAUSE", lost_ ? lost_->sentence : reason},
      {"ECHELON_LEFT_OUT", join(left_out, ",")},
      {"ECHELON_NEW_NODES", any_new ? "1" : ""}};
  const std::int64_t step = std::max(committed_step(options_.run_dir),
                                     resumed_step(options_.run_dir, job_.number(), job_.requeues()));
  note({.kind = StartNote::Kind::kStart, .in_place = true, .step = step});
  begin_start(more);
}

void Supervisor::end_ranks(double patience_s) {
  if (!step_) return;
  (void)step_->wait(patience_s);
  step_.reset();
  note({.kind = StartNote::Kind::kEnd, .code = facts_.status});
}

/// Nodes that are not used again go back to Slurm, which would end the whole job when it gives one of them
/// up. The node of this process stays. Runs beside the next start, because Slurm may take seconds to answer.
void Supervisor::give_back_unclear_nodes() {
  Nodes keep = job_.nodes();
  std::erase_if(keep, [&](const std::string& name) {
    return !cleared_.clear.contains(name) && !contains(cleared_.unsure, name) && name != job_.own_node();
  });
  if (keep.size() == job_.nodes().size()) return;
  giving_back_ = std::async(std::launch::async, [this, job = job_, keep] {
    if (!job.keep_nodes(keep))
      say("could not give lost nodes back to Slurm, which will end the job when it gives them up");
  });
}

void Supervisor::look_at_queue() {
  facts_.committed_step = committed_step(options_.run_dir);
  facts_.fruitless_starts = fruitless_starts(notes_, facts_.committed_step);
  facts_.queued_by_slurm = !is_running();
}

bool Supervisor::ask_for_minutes(const std::function<std::optional<bool>()>& ask,
                                 const std::string& meanwhile, const std::string& in_vain) const {
  const auto begin = std::chrono::steady_clock::now();
  for (bool told = false; seconds_since(begin) < 60 * kControllerIsAway_min; told = true) {
    if (const auto answer = ask()) return *answer;
    if (!told) say(str(meanwhile, " again for ", kControllerIsAway_min, " minutes"));
    std::this_thread::sleep_for(std::chrono::duration<double>(kBetweenQuestions_s));
  }
  say(in_vain + "; submit it again to continue");
  return false;
}

/// A controller that does not answer has not ended the job.
bool Supervisor::is_running() const {
  return ask_for_minutes([&] { return job_.is_running(); }, "gets no answer from Slurm's controller and asks",
                         "still gets no answer");
}

bool Supervisor::insist(const std::string& what, const std::function<bool()>& command) const {
  return ask_for_minutes(
      [&]() -> std::optional<bool> {
        if (command()) return true;
        if (job_.is_never_requeued()) {
          say(str("cannot be ", what,
                  ": it was submitted with --no-requeue, or comes from salloc; submit it again to continue"));
          return false;
        }
        return is_running() ? std::nullopt : std::optional(false);
      },
      str("is not ", what, " yet: Slurm refuses that, and is asked"),
      str("could not be ", what, ": Slurm refuses that"));
}

void Supervisor::requeue(const std::string& reason) {
  const auto without = job_.left_out(logs(), left_out_before(notes_));
  const bool any = without && !without->all.empty();
  say(str(reason, " and requeues itself",
          any ? str(" without ", join(without->all, ","), " (--exclude and ",
                    (logs() / "suspects.txt").string(), ")")
              : ""));
  for (const std::string& name : without ? without->suspects : Nodes{})
    note({.kind = StartNote::Kind::kLeftOut, .node = name});
  std::signal(SIGTERM, SIG_IGN);  // also for the commands that follow, which inherit it
  if (!insist("requeued", [&] { return job_.requeue(); })) return;
  if (without && !job_.leave_out(without->all)) say("could not change the nodes that it leaves out");
  std::this_thread::sleep_for(std::chrono::duration<double>(kUntilSlurmEndsUs_s));
}

void Supervisor::hold(const std::string& reason) {
  say(str("is held: ", reason, "; see the log above, then: scontrol release ", job_.number(),
          ", or: scancel ", job_.number()));
  note({.kind = StartNote::Kind::kHeld});
  if (!insist("held", [&] { return job_.hold(reason); })) return;
  const auto begin = std::chrono::steady_clock::now();
  while (stop_.requested() == nullptr && seconds_since(begin) < kUntilSlurmEndsUs_s)
    std::this_thread::sleep_for(std::chrono::duration<double>(kBetweenLooks_s));
}

/// A full disk must not decide how the job ends.
void Supervisor::note(StartNote note) {
  note.time_s = utc_now_s();
  notes_.push_back(note);
  const std::filesystem::path file = start_notes_file(options_.run_dir, job_.number());
  const std::string line = to_line(note);
  try {
    const fs::Fd fd = fs::open_own(file, O_WRONLY | O_CREAT | O_APPEND, Code::kEnvironment);
    fs::write_at(fd, 0, std::as_bytes(std::span(line)), Code::kEnvironment, file);
  } catch (const Error& error) {
    say(str("cannot note '", line.substr(0, line.size() - 1), "': ", error.what()));
  }
}

void Supervisor::say(const std::string& text) const {
  log::info(str("echelon: job ", job_.number(), " ", text));
  log::flush();
}

std::filesystem::path Supervisor::logs() const {
  return std::filesystem::path(options_.run_dir) / "logs";
}

}  // namespace echelon::supervise
