#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon {
namespace {

constexpr std::chrono::milliseconds kAfterLoss{500};

/// Is the owner an earlier start of this job, which is gone? Slurm starts a job again when nothing of it
/// runs; what else runs in this start of the job may live, unless it was lost.
bool is_lost(const std::string& owner, bool after_loss) {
  const std::string start = describe_this_job();
  const std::string job = start.substr(0, start.find_first_of(",)"));  // " (Slurm job 5"
  const std::size_t at = job.empty() ? owner.npos : owner.rfind(job);
  if (at == owner.npos || owner.find_first_of(",)", at) != at + job.size()) return false;
  return after_loss || owner.substr(at) != start;
}

std::string owner_of(const std::filesystem::path& lock) {
  const std::string owner = fs::read_own_file(lock, 4096, Code::kEnvironment);
  return owner.empty() ? "another job" : owner;
}

/// The missing ones of `folder` and its parents, outermost first.
std::vector<std::filesystem::path> missing_of(std::filesystem::path folder) {
  std::vector<std::filesystem::path> missing;
  std::error_code error;
  if (!folder.has_filename()) folder = folder.parent_path();
  for (; !folder.empty() && !std::filesystem::exists(std::filesystem::symlink_status(folder, error));
       folder = folder.parent_path())
    missing.insert(missing.begin(), folder);
  return missing;
}

/// Is it "rank-<number>.log"?
bool is_rank_log(std::string_view name) {
  if (!name.starts_with("rank-") || !name.ends_with(".log")) return false;
  const std::string_view number = name.substr(5, name.size() - 9);
  return !number.empty() && number.find_first_not_of("0123456789") == number.npos;
}

/// The files that a start which failed at once leaves in a run folder, none worth keeping; nothing if the
/// folder contains anything else.
std::optional<std::vector<std::filesystem::path>> files_of_no_value(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : fs::list_folder(root, Code::kEnvironment)) {
    const std::string name = path.filename().string();
    if (name == kRunLock || name == "goodput.json" || name == ".memory.json") {
      files.push_back(path);
    } else if (name == "logs") {
      for (const auto& log : fs::list_folder(path, Code::kEnvironment)) {
        if (!is_rank_log(log.filename().string())) return std::nullopt;
        files.push_back(log);
      }
    } else if (name != "checkpoints" || !fs::list_folder(path, Code::kEnvironment).empty()) {
      return std::nullopt;
    }
  }
  return files;
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path root, bool lock, const RunFolderRules& rules)
    : root_(std::move(root)) {
  in_context(str("run folder (run.dir) '", root_.string(), "'"), [&] {
    made_ = missing_of(root_);
    for (const char* file : {"goodput.json", "recipe.yaml"})
      has_record_ = has_record_ || std::filesystem::exists(std::filesystem::symlink_status(root_ / file));
    for (const auto& folder : {root_, checkpoints(), root_ / "logs"}) {
      try {
        fs::make_directories(folder, Code::kUsage);
      } catch (const Error& e) {
        throw Error(e.code(), e.what(), "; set run.dir to a folder that can be written");
      }
      if (!rules.allow_foreign)
        fs::require_unshared_folder(folder, Code::kUsage, "set run.allow_foreign_folder=true");
    }
    if (!lock) return;
    take_lock(rules);
    for (const auto& folder : {root_, root_ / "logs"})
      fs::remove_drafts(folder);  // of starts that were killed
  });
}

void RunFolder::take_lock(const RunFolderRules& rules) {
  const auto patience = rules.after_loss ? std::min(rules.patience, kAfterLoss) : rules.patience;
  const std::filesystem::path file = root_ / kRunLock;
  lock_ = fs::open_own(file, O_RDWR | O_CREAT, Code::kEnvironment);
  // The owner is often about to exit: ranks that lost their launcher, a run that writes its last lines.
  const int error = fs::lock_own(lock_, patience, [&] {
    log::info(str("run folder '", root_.string(), "' is in use by ", owner_of(file), "; waiting ",
                  std::chrono::duration_cast<std::chrono::seconds>(patience).count(), " s for it to end"));
  });
  const bool of_the_lost = error == EWOULDBLOCK && is_lost(owner_of(file), rules.after_loss);
  if (error == EWOULDBLOCK && !of_the_lost) {
    throw Error(Code::kUsage, "in use by ", owner_of(file),
                "; wait for it, or give this run another run.dir");
  }
  if (of_the_lost) {
    log::warn(str("run folder '", root_.string(), "' is still locked by ", owner_of(file),
                  ", which was lost; going on without the lock"));
  } else if (error != 0) {
    log::warn(str("'", file.string(), "' cannot be locked (", fs::reason(error),
                  "): nothing prevents a second job from using this run folder"));
  }
  lacks_lock_ = of_the_lost;
  fs::sign_lock(lock_, file, Code::kEnvironment);
}

void RunFolder::lock_if_free() noexcept {
  if (!lacks_lock_ || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return;
  lacks_lock_ = false;
  try {
    fs::sign_lock(lock_, root_ / kRunLock, Code::kEnvironment);
    log::note(str("run folder '", root_.string(), "' is locked by this start from now on"));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): only the owner's name is not told
  }
}

void RunFolder::remove_if_made() noexcept {
  try {
    if (made_.empty() || !lock_.valid()) return;
    const auto files = files_of_no_value(root_);
    if (!files) return;
    for (const auto& file : *files) fs::disk().unlink(file.c_str());
    for (const auto& folder : {root_ / "logs", checkpoints()}) fs::disk().rmdir(folder.c_str());
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
      if (fs::disk().rmdir(folder->c_str()) != 0) break;  // another process has started to use it
    }
    made_.clear();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the folder stays
  }
}

void RunFolder::wait_for_release(const StopSignal& signal) const {
  const fs::Fd file(fs::disk().open((root_ / kRunLock).c_str(), O_RDONLY | O_NOFOLLOW, 0));
  while (signal.requested() == nullptr && file.valid() && fs::is_locked(file))
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

std::filesystem::path RunFolder::log(int rank) const {
  return root_ / "logs" / str("rank-", rank, ".log");
}

}  // namespace echelon
