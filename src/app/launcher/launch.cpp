#include "app/launcher/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "app/launcher/output_relay.h"
#include "app/launcher/rank_processes.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/log.h"
#include "base/not_copied.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/process/python_package.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/terminal/standard_output.h"
#include "base/terminal/status_line.h"

namespace echelon::app {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT};
constexpr int kOldestOpenMpi = 4;
constexpr int kSearchMs = 5;        // between searches for ranks while mpirun starts them
constexpr int kSearchLongMs = 100;  // the same after 200 rounds, when the start is slow
/// mpirun ends within two seconds of its last rank. With a full temporary folder it stands still instead, and
/// only SIGKILL ends it.
constexpr double kLeaveS = 20;

/// Major version of Open MPI. Throws Error(kEnvironment) if `mpirun` belongs to another MPI or is too old.
int open_mpi_version(const std::string& mpirun) {
  constexpr std::string_view kName = "(Open MPI) ";
  const ProgramRun asked = run_program({mpirun, "--version"}, 30);
  const auto at = asked.out.find(kName);
  const int version = at == std::string::npos ? 0 : std::atoi(asked.out.c_str() + at + kName.size());
  if (version < kOldestOpenMpi) {
    throw Error(Code::kEnvironment, "cannot start local ranks: '", mpirun, "' is not mpirun of Open MPI ",
                kOldestOpenMpi, " or newer (", asked.good() ? printable(asked.out) : asked.trouble(mpirun),
                "); put Open MPI's mpirun first in PATH, or run one rank");
  }
  return version;
}

struct Command {
  std::vector<std::string> words;
  /// False keeps libevent from epoll, with which Open MPI 4 warns of closed descriptors while mpirun ends.
  bool epoll = true;
};

Command mpirun_command(const std::string& mpirun, int ranks, const std::vector<std::string>& rank) {
  // Since version 5 mpirun is PRRTE's prterun: it has other parameters, no -q (hence MpirunTalk), and needs
  // epoll.
  const bool prrte = open_mpi_version(mpirun) >= 5;
  const std::string parameter = prrte ? "--prtemca" : "--mca";
  Command command{
      .words = {mpirun,
                // Use this machine only, even inside a Slurm allocation, and allow more ranks than cores.
                parameter, "plm", prrte ? "^slurm" : "isolated", parameter, "ras", "^slurm",
                "--oversubscribe", "--allow-run-as-root",
                // No binding: a rank's communication thread must not share the core of a compute thread.
                "--bind-to", "none",
                // One machine needs shared memory only; naming it skips the search for networks.
                "--mca", "pml", "ob1", "--mca", "btl", prrte ? "self,sm" : "self,vader", "-n",
                std::to_string(ranks)},
      .epoll = prrte};
  if (!prrte) command.words.emplace_back("-q");
  command.words.insert(command.words.end(), rank.begin(), rank.end());
  return command;
}

/// Receives the forwarded signals and SIGCHLD through a file descriptor. Blocks them during its lifetime, so
/// that poll() wakes up for them and none is lost between two polls.
class SignalQueue : NotCopied {
 public:
  SignalQueue() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int number : kForwarded) {
      struct sigaction now {};
      sigaction(number, nullptr, &now);
      // Under nohup SIGHUP is ignored. Blocked, it would arrive at the descriptor all the same.
      if (number != SIGHUP || now.sa_handler != SIG_IGN) sigaddset(&set, number);
    }
    sigprocmask(SIG_BLOCK, &set, &before_);
    fd_ = fs::Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~SignalQueue() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const sigset_t& mask_before() const { return before_; }
  /// The next pending signal, or 0.
  [[nodiscard]] int take() const {
    signalfd_siginfo info;
    return read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  fs::Fd fd_;
};

/// Relays from the streams of mpirun and its ranks to those of this process. mpirun's standard error has its
/// own relay, since only there its messages are filtered out.
struct Relays {
  OutputRelay out{STDOUT_FILENO};
  OutputRelay ranks_err{STDERR_FILENO};
  OutputRelay mpirun_err{STDERR_FILENO, OutputRelay::Talk::kLeftOut};

  [[nodiscard]] std::array<OutputRelay*, 3> all() { return {&out, &ranks_err, &mpirun_err}; }
  /// Returns the events to poll for: the relays, then `signals`.
  [[nodiscard]] std::vector<pollfd> awaited_beside(int signals) {
    std::vector<pollfd> awaited = mapped(all(), &OutputRelay::awaited);
    awaited.push_back({.fd = signals, .events = POLLIN, .revents = 0});
    return awaited;
  }
  /// `polled` starts with the entries of awaited_beside().
  void pass_on(const std::vector<pollfd>& polled) {
    for (std::size_t n = 0; n < all().size(); ++n) {
      if (polled[n].revents != 0) all()[n]->pass_on();
    }
  }
  [[nodiscard]] bool done() {
    const auto relays = all();
    return std::ranges::all_of(relays, [](const OutputRelay* relay) { return relay->done(); });
  }
};

[[noreturn]] void become_mpirun(char* const* arguments, const SignalQueue& signals, Relays& relays,
                                pid_t launcher, bool epoll) {
  // When the launcher dies, even by SIGKILL, the kernel sends mpirun SIGTERM, on which it ends its ranks.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The launcher may have died before prctl() took effect.
  if (getppid() != launcher) _exit(127);
  setpgid(0, 0);  // Ctrl-C must reach the launcher only, which forwards it once to each rank
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  dup2(relays.out.entry(), STDOUT_FILENO);
  dup2(relays.mpirun_err.entry(), STDERR_FILENO);
  for (const OutputRelay* relay : relays.all()) relay->keep_ends();
  sigprocmask(SIG_SETMASK, &signals.mask_before(), nullptr);
  if (!epoll) setenv("EVENT_NOEPOLL", "1", 0);
  execv(arguments[0], arguments);
  _exit(127);
}

/// Starts mpirun. run_program() does not fit: this process works while mpirun runs, and the child needs what
/// posix_spawn(3) lacks (death signal, inherited descriptors, the previous signal mask).
pid_t start(const Command& command, const SignalQueue& signals, Relays& relays) {
  const std::vector<char*> arguments = for_exec(command.words);
  // Before fork(), so that mpirun and the ranks inherit it.
  offer_to_ranks(relays.out, relays.ranks_err);
  if (status_line::is_live()) status_line::turn_on();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Error(Code::kEnvironment, "cannot start ", command.words[0], ": ", fs::reason(errno));
  if (pid == 0) become_mpirun(arguments.data(), signals, relays, launcher, command.epoll);
  for (OutputRelay* relay : relays.all()) relay->begin();
  return pid;
}

struct End {
  int status = 0;      ///< mpirun's, of waitpid()
  bool stuck = false;  ///< mpirun did not end by itself
};

/// Relays output and signals until mpirun ends.
End attend(pid_t mpirun, RankProcesses& processes, const SignalQueue& signals, Relays& relays) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double leave_by_s = kNever;
  for (int round = 0;; ++round) {
    std::vector<pollfd> watched = relays.awaited_beside(signals.fd());
    const std::size_t first_handle = watched.size();
    for (const int handle : processes.handles())
      watched.push_back({.fd = handle, .events = POLLIN, .revents = 0});
    const bool stuck = steady_now_s() > leave_by_s;
    if (stuck) kill(mpirun, SIGKILL);
    const bool waits = processes.complete() && leave_by_s == kNever;
    const int patience = waits ? -1 : round < 200 ? kSearchMs : kSearchLongMs;
    poll(watched.data(), watched.size(), patience);
    relays.pass_on(watched);
    for (std::size_t n = first_handle; n < watched.size(); ++n) {
      if (watched[n].revents != 0) processes.ended(watched[n].fd);
    }
    bool child_changed = false;
    for (int number = signals.take(); number != 0; number = signals.take()) {
      number == SIGCHLD ? void(child_changed = true) : processes.signal(number);
    }
    End end{.stuck = stuck};
    if (child_changed && waitpid(mpirun, &end.status, WNOHANG) == mpirun) return end;
    if (!processes.complete()) processes.search();
    leave_by_s = processes.over() ? std::min(leave_by_s, steady_now_s() + kLeaveS) : kNever;
  }
}

/// Relays what is still in the pipes after mpirun ended. A signal stops it, because a pager may never read
/// the rest.
void finish(Relays& relays, const SignalQueue& signals) {
  while (!relays.done()) {
    std::vector<pollfd> watched = relays.awaited_beside(signals.fd());
    poll(watched.data(), watched.size(), -1);
    relays.pass_on(watched);
    for (int number = signals.take(); number != 0; number = signals.take()) {
      if (number != SIGCHLD) return;
    }
  }
}

void report(const std::string& line) {
  log::error("echelon: " + line);
}

int exit_code(const End& end, const RankProcesses& processes) {
  const int status = end.status;
  const bool failed = WIFEXITED(status) && WEXITSTATUS(status) == 1 && processes.first_ended() < 0;
  if (end.stuck || failed) {
    report(
        str("mpirun ", end.stuck ? "stood still without ranks and was killed" : "itself failed",
            ": make sure that its temporary folder (TMPDIR, else /tmp) is writable and has 16 MiB for each "
            "rank, and that the limits on open files and their size (ulimit -n, -f) leave enough"));
    return static_cast<int>(Code::kEnvironment);
  }
  if (WIFSIGNALED(status)) {
    report(str("mpirun was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
               "): its ranks were stopped"));
    return static_cast<int>(Code::kPeer);
  }
  const int code = WEXITSTATUS(status);
  // mpirun reports a rank that was ended by signal n as exit code 128 + n.
  if (code <= 128 || code > 128 + SIGRTMAX) return code;
  if (processes.was_sent(code - 128)) {
    report(str("ended at once by signal ", code - 128, " (", strsignal(code - 128),
               "), as requested: training since the last checkpoint is lost"));
    return code;
  }
  const std::string who = processes.first_ended() < 0 ? "a rank" : str("rank ", processes.first_ended());
  report(str(who, " was ended by signal ", code - 128, " (", strsignal(code - 128),
             code - 128 == SIGKILL ? ", for example because memory ran out" : "",
             "): the other ranks were stopped"));
  return static_cast<int>(Code::kPeer);
}

}  // namespace

int launch_local_ranks(int ranks, const std::vector<std::string>& argv_of_one_rank) {
  const std::string mpirun = find_program("mpirun");
  if (mpirun.empty()) {
    throw Error(
        Code::kEnvironment,
        "cannot start local ranks: mpirun is not in PATH; install Open MPI (Debian, Ubuntu: apt-get install "
        "openmpi-bin) or load its module (module load openmpi), or run one rank");
  }
  if (argv_of_one_rank.empty() || find_program(argv_of_one_rank[0]).empty()) {
    throw Error(Code::kEnvironment, "cannot start local ranks: '",
                argv_of_one_rank.empty() ? "" : argv_of_one_rank[0], "' is not a program");
  }
  settle_python();
  const Command command = mpirun_command(mpirun, ranks, argv_of_one_rank);
  const SignalQueue signals;
  std::signal(SIGPIPE, SIG_IGN);  // required by OutputRelay
  Relays relays;
  const pid_t pid = start(command, signals, relays);
  RankProcesses processes(pid, ranks);
  const End end = attend(pid, processes, signals, relays);
  // mpirun died by a signal and could not stop its ranks.
  if (WIFSIGNALED(end.status)) processes.kill_rest();
  finish(relays, signals);
  // After finish(), so that the launcher's own line comes last.
  const int code = exit_code(end, processes);
  if (code == 0 && !relays.out.whole()) throw standard_output_error();
  return code;
}

}  // namespace echelon::app
