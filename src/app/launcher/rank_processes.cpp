#include "app/launcher/rank_processes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/process/process.h"

namespace echelon::app {
namespace {

bool is_child(pid_t pid, pid_t parent) {
  const auto info = process_info(pid);
  return info && info->parent == parent;
}

/// PMIX_RANK from the initial environment of a process; -1 for a child that has not executed the rank's
/// program yet.
int rank_of(pid_t pid) {
  const std::string environment = fs::process_file(pid, "environ");
  const std::string key("\0PMIX_RANK=", 11);
  const auto at = ('\0' + environment).find(key);
  if (at == std::string::npos) return -1;
  return std::atoi(environment.c_str() + at + key.size() - 1);
}

/// Has a process a handler for a signal?
bool catches(pid_t pid, int number) {
  const std::string status = fs::process_file(pid, "status");
  const std::string key = "\nSigCgt:";
  const auto at = status.find(key);
  const std::uint64_t caught =
      at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + key.size(), nullptr, 16);
  return (caught >> (number - 1) & 1) != 0;
}

}  // namespace

void RankProcesses::search() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || std::ranges::find(found_, pid, &Process::pid) != found_.end()) continue;
    if (!is_child(pid, mpirun_)) continue;
    const int rank = rank_of(pid);
    if (rank < 0) continue;
    fs::Fd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // Check again: the pid may have been reused before the handle was opened. A handle always means the same
    // process.
    if (!handle.valid() || !is_child(pid, mpirun_)) continue;
    found_.push_back({.rank = rank, .pid = pid, .handle = std::move(handle)});
    for (const int number : signals_) deliver(found_.back(), number);
  }
}

void RankProcesses::deliver(const Process& process, int number) const {
  syscall(SYS_pidfd_send_signal, process.handle.get(), number, nullptr, 0);
}

void RankProcesses::signal(int number) {
  // It asks for a report. It would end a rank that has just started and neither handles nor ignores it.
  const bool asks = number == SIGUSR1;
  if (!asks) signals_.push_back(number);
  for (const Process& process : found_) {
    if (!asks || catches(process.pid, number)) deliver(process, number);
  }
}

bool RankProcesses::was_sent(int number) const {
  return std::ranges::find(signals_, number) != signals_.end();
}

std::vector<int> RankProcesses::handles() const {
  std::vector<int> handles;
  for (const Process& process : found_) {
    if (!process.ended) handles.push_back(process.handle.get());
  }
  return handles;
}

void RankProcesses::ended(int handle) {
  for (Process& process : found_) {
    if (process.handle.get() != handle) continue;
    process.ended = true;
    if (first_ended_ < 0) first_ended_ = process.rank;
  }
}

bool RankProcesses::over() const {
  return std::ranges::all_of(found_, &Process::ended) && !(found_.empty() && signals_.empty());
}

void RankProcesses::kill_rest() {
  search();
  for (const Process& process : found_) deliver(process, SIGKILL);
}

}  // namespace echelon::app
