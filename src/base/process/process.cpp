#include "base/process/process.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

/// The count in an environment variable; empty: there is none, or it is 0.
std::string count_in(const char* name) {
  const std::string value = environment_variable(name);
  return value == "0" ? "" : value;
}

}  // namespace

std::optional<ProcessInfo> process_info(pid_t pid) {
  const std::string text = fs::process_file(pid, "stat");
  // proc(5): the second field, the program's name in parentheses, may contain anything, also ')'.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessInfo info;
  std::string skipped;
  fields >> info.state >> info.parent;  // the third and fourth
  for (int i = 5; i < 22; ++i) fields >> skipped;
  if (!(fields >> info.start)) return std::nullopt;  // the 22nd
  return info;
}

std::string process_space(const std::string& kind) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (boot.empty() || ::stat(("/proc/self/ns/" + kind).c_str(), &space) != 0) return "";
  return str("boot ", boot, " space ", space.st_ino);
}

double process_began_s() {
  const auto info = process_info(getpid());
  timespec up{};
  if (!info || ::clock_gettime(CLOCK_BOOTTIME, &up) != 0) return utc_now_s();
  const double began = static_cast<double>(info->start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double age = static_cast<double>(up.tv_sec) + static_cast<double>(up.tv_nsec) * 1e-9 - began;
  return utc_now_s() - std::max(0.0, age);
}

std::filesystem::path own_program() {
  try {
    return std::filesystem::read_symlink("/proc/self/exe");
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(Code::kEnvironment,
                "cannot find the file of this program: /proc/self/exe: ", error.code().message(),
                "; /proc must be mounted");
  }
}

std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  for (const std::string& folder : split(environment_variable("PATH", "/usr/local/bin:/usr/bin:/bin"), ':')) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

std::string environment_variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string describe_this_job() {
  const std::string job = environment_variable("SLURM_JOB_ID");
  if (job.empty()) return "";
  const std::string requeues = count_in("SLURM_RESTART_COUNT");
  return str(" (Slurm job ", job, requeues.empty() ? "" : ", requeue " + requeues, ")");
}

bool restarts_in_place() {
  return !count_in("ECHELON_RESTART_IN_PLACE").empty();
}

bool is_later_start_of_job() {
  return restarts_in_place() || !count_in("SLURM_RESTART_COUNT").empty();
}

std::string describe_this_process() {
  const std::string host = host_name();
  return str("process ", ::getpid(), " on ", host.empty() ? "?" : host, describe_this_job());
}

bool first_of_step() {
  for (const char* variable : {"PMIX_RANK", "SLURM_PROCID"}) {  // a step without PMIx has ranks, too
    const char* value = std::getenv(variable);
    if (value != nullptr) return std::string_view(value) == "0";
  }
  return true;
}

void lower_priority_of_this_thread() {
  // Not SCHED_IDLE: where all cores are busy, also with other programs, the thread would hardly ever run.
  constexpr int kNice = 19;
  // On Linux this is a matter of the thread, although POSIX means the process.
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
}

}  // namespace echelon
