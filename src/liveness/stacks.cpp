#include "liveness/stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include "base/files/fs.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon {
namespace {

// A signal handler has no argument for its data, hence static storage.
constexpr int kMostFrames = 64;
std::array<void*, kMostFrames> frames;
std::atomic<int> count{-1};  // -1: the handler has not run yet
struct sigaction previous;

int probe_signal() {
  return SIGRTMIN + 4;
}

void on_probe(int /*signal*/) {
  count.store(backtrace(frames.data(), kMostFrames), std::memory_order_release);
}

std::string name_of(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
  const std::string path = info.dli_fname;
  const std::string file = path.substr(path.find_last_of('/') + 1);
  if (info.dli_sname == nullptr)
    return str("0x", std::hex, static_cast<char*>(address) - static_cast<char*>(info.dli_fbase), " (", file,
               ")");
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? plain.get() : info.dli_sname;
  if (name.size() > 120) name = name.substr(0, 117) + "...";
  return str(name, " (", file, ")");
}

}  // namespace

StackProbe::StackProbe() : thread_(pthread_self()) {
  std::array<void*, 1> warm_up;
  backtrace(warm_up.data(), 1);  // loads the unwinder library, which allocates: not allowed in a handler
  struct sigaction action {};
  action.sa_handler = on_probe;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(probe_signal(), &action, &previous);
}

StackProbe::~StackProbe() {
  sigaction(probe_signal(), &previous, nullptr);
}

std::vector<std::string> StackProbe::take() const {
  count.store(-1);
  if (pthread_kill(thread_, probe_signal()) != 0) return {};
  for (int wait = 0; wait < 200 && count.load(std::memory_order_acquire) < 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int found = count.load(std::memory_order_acquire);
  std::vector<std::string> names;
  for (int n = 2; n < found; ++n) names.push_back(name_of(frames[static_cast<std::size_t>(n)]));
  return names;  // the first two are the handler and the return from it
}

std::string look_at_process(std::int64_t pid) {
  const auto info = process_info(static_cast<pid_t>(pid));
  if (!info) return str("its process ", pid, " no longer exists");
  const std::string place = fs::process_file(pid, "wchan");
  const std::string in = place.empty() || place == "0" ? "" : ", in " + place;
  switch (info->state) {
    case 'T': return str("its process ", pid, " is stopped by a signal (SIGSTOP)");
    case 't': return str("its process ", pid, " is stopped by a debugger");
    case 'D': return str("its process ", pid, " waits for a device or a file system", in);
    case 'Z': return str("its process ", pid, " has ended");
    default:
      return str("its process ", pid, " is there (state ", info->state, in,
                 ") but gets no CPU time or hangs");
  }
}

}  // namespace echelon
