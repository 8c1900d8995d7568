#include "checkpoint/hdf5/limited_child.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"

namespace echelon::checkpoint {
namespace {

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
constexpr int kCannotLimit = 99;  // exit code of a child that could not limit itself
constexpr int kThrew = 98;

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "name this processor for the system call filter"
#endif

// The sanitizers reserve terabytes of address space, probe memory through pipes and use signal stacks.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

sock_filter statement(std::uint16_t code, std::uint32_t value) {
  return {code, 0, 0, value};
}
sock_filter jump(std::uint32_t value, std::uint8_t if_equal, std::uint8_t otherwise) {
  return {BPF_JMP | BPF_JEQ | BPF_K, if_equal, otherwise, value};
}

/// A seccomp allow-list: any call that is not named kills the process. Calls that open or examine files fail
/// with EACCES instead, because libraries try them and can handle the failure.
std::vector<sock_filter> make_filter() {
  std::vector<sock_filter> filter;
  const auto load = [&](std::size_t offset) {
    filter.push_back(statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)));
  };
  const auto answer = [&](int number, std::uint32_t verdict) {
    filter.push_back(jump(static_cast<std::uint32_t>(number), 0, 1));
    filter.push_back(statement(BPF_RET | BPF_K, verdict));
  };
  // Checked first: another architecture's numbers (32-bit calls on x86-64) mean other calls.
  load(offsetof(seccomp_data, arch));
  filter.push_back(jump(kArchitecture, 1, 0));
  filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  load(offsetof(seccomp_data, nr));
  for (const int number : {SYS_read,
                           SYS_pread64,
                           SYS_write,
                           SYS_lseek,
                           SYS_fstat,
                           SYS_close,
                           SYS_brk,
                           SYS_munmap,
                           SYS_mremap,
                           SYS_madvise,
                           SYS_futex,
                           SYS_getpid,
                           SYS_gettid,
                           SYS_getrandom,
                           SYS_clock_gettime,
                           SYS_clock_nanosleep,
                           SYS_gettimeofday,
                           SYS_sched_yield,
                           SYS_rt_sigprocmask,
                           SYS_rt_sigreturn,
                           SYS_exit,
                           SYS_exit_group})
    answer(number, SECCOMP_RET_ALLOW);
  for (const int number :
       {SYS_openat, SYS_getcwd, SYS_newfstatat, SYS_readlinkat, SYS_faccessat, SYS_ioctl, SYS_fcntl})
    answer(number, SECCOMP_RET_ERRNO | EACCES);
#if defined(__x86_64__)
  for (const int number : {SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink})
    answer(number, SECCOMP_RET_ERRNO | EACCES);
#endif
  for (const int number : {SYS_pipe2, SYS_sigaltstack}) {
    if (kSanitized) answer(number, SECCOMP_RET_ALLOW);
  }
  // Memory, but not executable.
  for (const int number : {SYS_mmap, SYS_mprotect}) {
    filter.push_back(jump(static_cast<std::uint32_t>(number), 0, 4));
    load(offsetof(seccomp_data, args[2]));
    filter.push_back({BPF_JMP | BPF_JSET | BPF_K, 1, 0, PROT_EXEC});
    filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  filter.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  return filter;
}

bool cap(__rlimit_resource resource, std::uint64_t value) {
  const rlimit limit{value, value};
  return ::setrlimit(resource, &limit) == 0;
}

bool apply_limits(const ChildLimits& limits) {
  const bool good = cap(RLIMIT_CPU, limits.cpu_s) && cap(RLIMIT_FSIZE, 0) && cap(RLIMIT_CORE, 0) &&
                    (kSanitized || (cap(RLIMIT_NOFILE, 0) && cap(RLIMIT_AS, limits.memory_bytes)));
  std::vector<sock_filter> filter = make_filter();
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return good && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

void close_between(unsigned first, unsigned last) {
  if (first > last || ::syscall(SYS_close_range, first, last, 0U) == 0) return;
  // Kernels before 5.9 have no close_range.
  for (unsigned fd = first; fd <= std::min(last, 65535U); ++fd) ::close(static_cast<int>(fd));
}

void close_all_but(int a, int b) {
  const auto low = static_cast<unsigned>(std::min(a, b));
  const auto high = static_cast<unsigned>(std::max(a, b));
  if (low > 0) close_between(0, low - 1);
  close_between(low + 1, high - 1);
  close_between(high + 1, ~0U);
}

[[noreturn]] void run_child(int input, int out, const std::function<void()>& prepare,
                            const std::function<std::string()>& body, const ChildLimits& limits) {
  // The parent's handlers would act on its copied state.
  for (const int signal : {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE})
    std::signal(signal, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_all_but(input, out);
  int code = kThrew;
  try {
    prepare();
    // After prepare(): a library may open files while it starts.
    if (!apply_limits(limits)) ::_exit(kCannotLimit);
    const std::string text = body();
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t size = ::write(out, text.data() + done, text.size() - done);
      if (size <= 0) ::_exit(kThrew);
      done += static_cast<std::size_t>(size);
    }
    code = 0;
  } catch (const std::exception&) {
  }
  ::_exit(code);
}

/// Reads to the end. False when the time was over first, or the output grew too long.
bool drain(int from, std::string& output, unsigned timeout_s) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(timeout_s);
  std::array<char, 4096> buffer{};
  while (output.size() <= kMaxOutput) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waiting{from, POLLIN, 0};
    if (left <= 0) return false;
    if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t size = ::read(from, buffer.data(), buffer.size());
    if (size == 0) return true;
    if (size > 0) output.append(buffer.data(), static_cast<std::size_t>(size));
  }
  return false;
}

std::string failure_of(int status, bool in_time, const ChildLimits& limits) {
  if (!in_time) return str("did not end within ", limits.timeout_s, " s");
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGSYS) return "made a system call that is not allowed";
    // At the soft limit the kernel sends SIGXCPU; both limits are equal here, so SIGKILL may come first.
    if (signal == SIGXCPU || signal == SIGKILL)
      return str("used more than ", limits.cpu_s, " s of processor time");
    return str("ended by signal ", signal, " (", ::strsignal(signal), ')');
  }
  return WEXITSTATUS(status) == 0 ? "" : "ran out of memory or gave up";
}

}  // namespace

ChildResult run_limited(int input, const std::function<void()>& prepare,
                        const std::function<std::string()>& body, const ChildLimits& limits) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(Code::kEnvironment, str("cannot make a pipe: ", fs::reason(errno)));
  fs::Fd from(ends[0]);
  fs::Fd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw Error(Code::kEnvironment, str("cannot start a process: ", fs::reason(errno)));
  if (child == 0) run_child(input, to.get(), prepare, body, limits);
  to = fs::Fd();
  ChildResult result;
  const bool in_time = drain(from.get(), result.output, limits.timeout_s);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotLimit) {
    throw Error(Code::kEnvironment,
                "cannot limit a child process on this system (seccomp filters are missing), so untrusted "
                "files are not parsed");
  }
  result.failure = failure_of(status, in_time, limits);
  return result;
}

}  // namespace echelon::checkpoint
