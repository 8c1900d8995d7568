#include "checkpoint/rank_save.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/caught.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/kill_point.h"
#include "base/log.h"
#include "base/process.h"
#include "base/str.h"
#include "checkpoint/files.h"
#include "checkpoint/names.h"
#include "checkpoint/shard_write.h"

namespace echelon::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

/// Best effort: the disk that failed the shard may fail the note; then rank 0 waits until its time is over.
void leave_note(const std::filesystem::path& folder, int rank, const std::string& why) noexcept {
  try {
    fs::publish_file(folder / failure_file_name(rank), why, Code::kCheckpoint);
  } catch (...) {
  }
}

}  // namespace

std::string failure_file_name(int rank) {
  std::string digits = std::to_string(rank);
  return "FAILED-" + std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

/// Shared by the object and its thread, because a thread in a hung system call outlives the object.
struct RankSave::Work {
  Work(SavePlan wanted, ShardPlan layout, std::vector<Slice> slices, std::shared_ptr<Staging> memory)
      : plan(std::move(wanted)),
        rank(layout.index.rank),
        staging(std::move(memory)),
        shard(plan.folder, std::move(layout), std::move(slices), *staging,
              {.bytes_per_s = plan.bytes_per_s, .timeout_s = plan.timeout_s}) {}

  void run() noexcept;
  /// Up to the commit. Returns the doubt in it.
  [[nodiscard]] std::string save();
  void wait_for_shards() const;
  void tell_of_commit() const noexcept;
  void end(Status how) noexcept;
  /// Waits at most `seconds` for the end; whether it came.
  [[nodiscard]] bool over(double seconds) const;

  SavePlan plan;
  int rank;
  std::shared_ptr<Staging> staging;
  ShardWrite shard;
  const Clock::time_point began = Clock::now();
  std::atomic<bool> cancelled{false};
  std::string given_up;  ///< why, by the mutex
  mutable std::mutex mutex;
  mutable std::condition_variable ended;
  Status status;
};

void RankSave::Work::end(Status how) noexcept {
  {
    const std::lock_guard lock(mutex);
    status = std::move(how);
    status.seconds = seconds_since(began);
  }
  ended.notify_all();
}

bool RankSave::Work::over(double seconds) const {
  std::unique_lock lock(mutex);
  return ended.wait_for(lock, std::chrono::duration<double>(seconds),
                        [&] { return status.state != State::kRunning; });
}

void RankSave::Work::wait_for_shards() const {
  auto pause = std::chrono::milliseconds(1);
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
      const std::lock_guard lock(mutex);
      if (!given_up.empty()) throw Error(Code::kCheckpoint, given_up);
    }
    if (cancelled) throw Error(Code::kCheckpoint, "the run ended before the save did");
    if (seconds_since(began) > plan.timeout_s) {
      throw Error(
          Code::kCheckpoint,
          str("rank ", next, "'s '", name, "' was not there after ", std::lround(plan.timeout_s),
              " s (checkpoint.timeout_s): its disk hangs or is too slow, or the run folder is not on a "
              "file system that all nodes share"));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(200));
  }
}

std::string RankSave::Work::save() {
  in_context(str("cannot save rank ", rank, "'s shard on ", host_name()), [&] { shard.write(); });
  if (rank != 0) return "";
  wait_for_shards();
  std::string doubt = commit(plan.folder, plan.commit);
  kill_point("committed");
  return doubt;
}

void RankSave::Work::tell_of_commit() const noexcept {
  try {
    if (plan.on_commit) plan.on_commit();
  } catch (...) {
    const std::string why = caught();
    try {
      log::warn(
          str("checkpoint '", plan.folder.string(), "' is committed; what follows a commit failed: ", why));
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
    leave_note(plan.folder, rank, how.error);
    if (rank == 0) discard_attempt(plan.folder);
  }
  // Outside the try: a commit is never taken back.
  if (rank == 0 && how.state == State::kDone && how.doubt.empty()) tell_of_commit();
  end(std::move(how));
}

RankSave::RankSave(SavePlan plan, ShardPlan layout, std::vector<Slice> slices,
                   std::shared_ptr<Staging> staging) {
  const std::filesystem::path folder = plan.folder;
  const int rank = layout.index.rank;
  try {
    fs::make_directories(folder, Code::kCheckpoint);
    kill_point("folder");
    plan.waits ? staging->reset(Staging::kPipeWindows) : staging->reset();
    in_context(str("cannot save rank ", rank, "'s shard on ", host_name()), [&] {
      work_ =
          std::make_shared<Work>(std::move(plan), std::move(layout), std::move(slices), std::move(staging));
    });
    std::thread([work = work_] { work->run(); }).detach();
  } catch (...) {
    leave_note(folder, rank, caught());
    throw;
  }
}

RankSave::~RankSave() {
  constexpr double kGrace_s = 10;
  work_->cancelled = true;
  if (!staged_) work_->staging->stop();  // nothing will come
  if (!work_->over(kGrace_s)) work_->staging->stop();
}

void RankSave::stage() {
  staged_ = true;
  try {
    work_->shard.stage();
  } catch (...) {
    // The writing thread fails with the same words.
  }
}

void RankSave::give_up(const std::string& why) {
  const std::lock_guard lock(work_->mutex);
  work_->given_up = why;
}

RankSave::Status RankSave::status() const {
  const std::lock_guard lock(work_->mutex);
  return work_->status;
}

RankSave::Status RankSave::wait(double seconds) const {
  (void)work_->over(seconds);
  return status();
}

std::uint64_t RankSave::bytes() const {
  return work_->shard.file_bytes();
}

}  // namespace echelon::checkpoint
