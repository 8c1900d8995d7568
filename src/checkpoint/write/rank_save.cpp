#include "checkpoint/write/rank_save.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <span>
#include <string_view>
#include <thread>

#include "base/caught.h"
#include "base/error.h"
#include "base/files/disk.h"
#include "base/files/fs.h"
#include "base/files/kill_point.h"
#include "base/files/new_file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process/awake_clock.h"
#include "base/process/process.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/format/names.h"
#include "checkpoint/write/shard_write.h"

namespace echelon::checkpoint {
namespace {

/// Tells rank 0 that a rank's save failed. File names are built in advance: where the disk works, leave()
/// allocates nothing, unlike fs::NewFile, so a rank that runs out of memory can still report it.
class FailureNote {
 public:
  FailureNote(const std::filesystem::path& folder, int rank)
      : folder_(folder), path_(folder / failure_file_name(rank)), draft_(fs::draft_name(path_)) {}

  /// Best effort: the disk that failed may fail here, too. Rank 0 then waits until its timeout.
  void leave(std::string_view why) const noexcept {
    try {
      {
        const fs::Fd file = fs::open(draft_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, Code::kCheckpoint);
        fs::write_at(file, 0, std::as_bytes(std::span(why)), Code::kCheckpoint, draft_);
        fs::fsync(file, Code::kCheckpoint, draft_);
      }
      fs::rename(draft_, path_, Code::kCheckpoint);
      fs::fsync_directory(folder_, Code::kCheckpoint);
    } catch (...) {
      (void)fs::disk().unlink(draft_.c_str());
    }
  }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::filesystem::path draft_;
};

}  // namespace

/// Shared by the object and its thread, because a thread in a hanging system call outlives the object.
struct RankSave::Work {
  Work(SavePlan wanted, ShardPlan layout, std::vector<Slice> slices, std::shared_ptr<Staging> memory,
       FailureNote note)
      : plan(std::move(wanted)),
        failure(std::move(note)),
        rank(layout.index.rank),
        staging(std::move(memory)),
        shard(plan.folder, std::move(layout), std::move(slices), *staging,
              {.bytes_per_s = plan.bytes_per_s,
               .timeout_s = plan.timeout_s,
               .reserves = !plan.in_memory,
               .now_s = [this] { return clock.now_s(); }}) {}

  void run() noexcept;
  /// Everything up to the commit. Returns the doubt in it (Status::doubt).
  [[nodiscard]] std::string save();
  void wait_for_shards() const;
  /// Puts what forbids the commit before the error, if something does: a new owner of the folder removes a
  /// save under way, and the error then only names a file that is gone.
  void explain(std::string& error) const noexcept;
  void tell_of_commit() noexcept;
  void end(Status how) noexcept;
  [[nodiscard]] bool commits() const { return rank == 0 && !plan.in_memory; }
  [[nodiscard]] double age_s() const { return clock.now_s() - began_s; }
  /// Waits at most `seconds` for the end; returns whether it came.
  [[nodiscard]] bool over(double seconds) const;

  AwakeClock clock;  ///< a suspended job has as much time for its save as any other
  const double began_s = clock.now_s();
  SavePlan plan;
  FailureNote failure;
  int rank;
  std::shared_ptr<Staging> staging;
  ShardWrite shard;
  std::atomic<bool> cancelled{false};
  std::string given_up ECHELON_GUARDED_BY(mutex);  ///< why
  std::unique_ptr<const FolderLease> lease;        ///< of the rank that commits, as long as it writes
  mutable Mutex mutex;
  mutable std::condition_variable ended;
  Status status ECHELON_GUARDED_BY(mutex);
};

void RankSave::Work::end(Status how) noexcept {
  const Lock lock(mutex);
  status = std::move(how);
  status.seconds = age_s();
  ended.notify_all();
}

bool RankSave::Work::over(double seconds) const {
  Lock lock(mutex);
  return ended.wait_for(lock, std::chrono::duration<double>(seconds),
                        [&]() ECHELON_REQUIRES(mutex) { return status.state != State::kRunning; });
}

void RankSave::Work::wait_for_shards() const {
  auto pause = std::chrono::milliseconds(1);
  // Polls the folder, in rank order: a shard has its final name only when it is durable. Any rank's failure
  // note ends the wait, whichever shard is waited for.
  for (int next = 0; next < plan.commit.ranks;) {
    const std::string name = shard_file_name(next, plan.commit.ranks);
    if (entry_exists(plan.folder / name)) {
      ++next;
      continue;
    }
    for (int other = 0; other < plan.commit.ranks; ++other) {
      const auto note = plan.folder / failure_file_name(other);
      if (entry_exists(note)) throw Error(Code::kCheckpoint, read_input(note, 1 << 16));
    }
    {
      const Lock lock(mutex);
      if (!given_up.empty()) throw Error(Code::kCheckpoint, given_up);
    }
    if (cancelled) throw Error(Code::kCheckpoint, "the run ended before the save did");
    if (age_s() > plan.timeout_s) {
      throw Error(Code::kCheckpoint, "rank ", next, "'s '", name, "' did not appear within ",
                  std::lround(plan.timeout_s),
                  " s (checkpoint.timeout_s): its disk hangs or is too slow, or the run folder is not on a "
                  "file system that all nodes share");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(200));
  }
}

std::string RankSave::Work::save() {
  if (plan.in_memory) lower_priority_of_this_thread();
  if (plan.before_write) plan.before_write();
  in_context(str("cannot save rank ", rank, "'s shard on ", host_name()), [&] { shard.write(); });
  if (!commits()) return "";
  wait_for_shards();
  std::string doubt = commit(plan.folder, plan.commit);
  kill_point("committed");
  return doubt;
}

void RankSave::Work::tell_of_commit() noexcept {
  {
    const Lock lock(mutex);
    status.committed = true;
    status.seconds = age_s();
  }
  try {
    if (plan.on_commit) plan.on_commit();
  } catch (...) {
    const std::string why = caught();
    try {
      log::warn(str("checkpoint '", plan.folder.string(),
                    "' is committed, but the work after the commit failed: ", why));
    } catch (...) {
    }
  }
}

void RankSave::Work::explain(std::string& error) const noexcept {
  try {
    if (commits() && plan.commit.before_commit) plan.commit.before_commit();
  } catch (...) {
    const std::string why = caught();
    try {
      error = str(why, " (", error, ")");
    } catch (...) {
    }
  }
}

void RankSave::Work::run() noexcept {
  Status how{.state = State::kDone};
  try {
    how.doubt = save();
  } catch (...) {
    how.state = State::kFailed;
    how.error = caught();
    explain(how.error);
    failure.leave(how.error);
    if (commits()) discard_attempt(plan.folder);
  }
  lease.reset();
  // Outside the try block: nothing that fails after a commit may revoke it.
  how.committed = commits() && how.state == State::kDone && how.doubt.empty();
  if (how.committed) tell_of_commit();
  end(std::move(how));
}

RankSave::RankSave(SavePlan plan, ShardPlan layout, std::vector<Slice> slices,
                   std::shared_ptr<Staging> staging) {
  const FailureNote note(plan.folder, layout.index.rank);
  try {
    std::unique_ptr<const FolderLease> lease;
    if (layout.index.rank == 0 && !plan.in_memory)
      lease = std::make_unique<const FolderLease>(plan.folder, LeaseKind::kWriter);
    fs::make_directories(plan.folder, Code::kCheckpoint);
    kill_point("folder");
    plan.waits ? staging->reset(Staging::kPipeWindows) : staging->reset();
    in_context(str("cannot save rank ", layout.index.rank, "'s shard on ", host_name()), [&] {
      work_ = std::make_shared<Work>(std::move(plan), std::move(layout), std::move(slices),
                                     std::move(staging), note);
    });
    work_->lease = std::move(lease);
    // Detached: it cannot be joined while it hangs in a system call.
    std::thread([work = work_] { work->run(); }).detach();
  } catch (...) {
    note.leave(caught());
    throw;
  }
}

RankSave::~RankSave() {
  constexpr double kGrace_s = 10;
  work_->cancelled = true;
  if (!staged_) work_->staging->stop();  // no windows will come: wakes the writing thread
  if (!work_->over(kGrace_s)) work_->staging->stop();
}

void RankSave::stage() {
  staged_ = true;
  try {
    work_->shard.stage();
  } catch (...) {
    // The writing thread fails with the same message.
  }
}

void RankSave::abandon() {
  work_->cancelled = true;
  work_->staging->stop();
}

void RankSave::give_up(const std::string& why) {
  const Lock lock(work_->mutex);
  work_->given_up = why;
}

double RankSave::age_s() const {
  return work_->age_s();
}

RankSave::Status RankSave::status() const {
  const Lock lock(work_->mutex);
  return work_->status;
}

RankSave::Status RankSave::wait(double seconds) const {
  (void)work_->over(seconds);
  return status();
}

std::uint64_t RankSave::bytes() const {
  return work_->shard.file_bytes();
}

std::uint32_t RankSave::blocks_crc() const {
  return work_->shard.blocks_crc();
}

}  // namespace echelon::checkpoint
