#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "base/process.h"
#include "base/str.h"

namespace echelon {
namespace {

std::string describe_this_process() {
  const std::string host = host_name();
  const char* job = std::getenv("SLURM_JOB_ID");
  return str("process ", getpid(), " on ", host.empty() ? "?" : host,
             job != nullptr ? str(" (Slurm job ", job, ")") : "");
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path root, bool lock) : root_(std::move(root)) {
  in_context(str("run folder (run.dir) '", root_.string(), "'"), [&] {
    try {
      fs::make_directories(checkpoints(), Code::kUsage);
      fs::make_directories(root_ / "logs", Code::kUsage);
    } catch (const Error& e) {
      throw Error(e.code(), str(e.what(), "; set run.dir to a folder that can be written"));
    }
    if (lock) take_lock();
  });
}

void RunFolder::take_lock() {
  const std::filesystem::path file = root_ / ".lock";
  lock_ = fs::open(file, O_RDWR | O_CREAT, Code::kUsage);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const std::string owner = fs::read_file(file, 4096, Code::kUsage);
      throw Error(Code::kUsage, str("in use by ", owner.empty() ? "another job" : owner,
                                    "; wait for it, or give this run another run.dir"));
    }
    log::warn(str("'", file.string(), "' cannot be locked (", fs::reason(errno),
                  "): nothing keeps a second job out of this run folder"));
  }
  const std::string owner = describe_this_process();
  if (::ftruncate(lock_.get(), 0) != 0)
    throw Error(Code::kUsage, str("cannot write '", file.string(), "': ", fs::reason(errno)));
  fs::write_at(lock_, 0, std::as_bytes(std::span(owner)), Code::kUsage, file);
}

void RunFolder::wait_for_release() const {
  const fs::Fd file(::open((root_ / ".lock").c_str(), O_RDONLY | O_CLOEXEC));
  while (file.valid() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 &&
         (errno == EWOULDBLOCK || errno == EINTR))
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

std::filesystem::path RunFolder::log(int rank) const {
  return root_ / "logs" / str("rank-", rank, ".log");
}

}  // namespace echelon
