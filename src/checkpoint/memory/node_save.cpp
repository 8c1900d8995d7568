#include "checkpoint/memory/node_save.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/caught.h"
#include "base/error.h"
#include "base/files/kill_point.h"
#include "base/files/new_file.h"
#include "base/mutex.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/memory/memory_note.h"
#include "checkpoint/memory/shard_check.h"

namespace echelon::checkpoint {

void fetch_shard(const std::filesystem::path& folder, const ServiceCard& from, const Secret& secret,
                 const WantedShard& wanted, std::uint32_t blocks_crc, const FetchLimits& limits) {
  const std::filesystem::path name = folder / shard_file_name(wanted.rank, wanted.ranks);
  fs::NewFile file(name.string() + std::string(kUnfinished), Code::kCheckpoint);
  ShardCheck check(wanted, {.blocks_crc = blocks_crc}, str("shard ", wanted.rank, " as it arrived"));
  std::uint64_t at = 0;
  fetch(from, secret, wanted, limits, [&](std::span<const std::byte> bytes) {
    check.take(bytes);
    file.write(at, bytes);
    at += bytes.size();
    kill_point("memory_part");
  });
  check.finish();
  file.close();
  file.rename(name);
}

/// Shared by the object and its thread.
struct NodeSave::Work {
  explicit Work(NodeSavePlan wanted) : plan(std::move(wanted)) {}

  void run() noexcept;
  void copy(const NodeSavePlan::Copy& copy);
  void wait_for_shards() const;
  /// Takes no memory, unlike status(), which copies the error.
  [[nodiscard]] bool is_running() const {
    const Lock lock(mutex);
    return status.state == State::kRunning;
  }

  NodeSavePlan plan;
  std::atomic<bool> cancelled{false};
  const double began_s = steady_now_s();
  mutable Mutex mutex;
  Status status ECHELON_GUARDED_BY(mutex);
};

void NodeSave::Work::copy(const NodeSavePlan::Copy& copy) {
  const WantedShard wanted{.step = plan.info.step,
                           .save_id = plan.info.save_id,
                           .rank = copy.rank,
                           .ranks = plan.info.ranks,
                           .patience_s = plan.timeout_s};
  in_context(str("no copy of rank ", copy.rank, "'s shard (", copy.host, ')'), [&] {
    if (!copy.blocks_crc) throw Error(Code::kCheckpoint, "that rank could not begin");
    fetch_shard(plan.folder, copy.from, plan.secret, wanted, *copy.blocks_crc, {.cancelled = &cancelled});
  });
  kill_point("memory_copied");
  const std::uint64_t bytes = open_input(plan.folder / shard_file_name(copy.rank, plan.info.ranks)).bytes;
  const Lock lock(mutex);
  status.copied_bytes += bytes;
}

void NodeSave::Work::wait_for_shards() const {
  const double until = began_s + plan.timeout_s;
  for (const int rank : plan.held) {
    const auto shard = plan.folder / shard_file_name(rank, plan.info.ranks);
    while (!entry_exists(shard)) {
      // Ranks of this node leave a note for their own shard, and for one that they could not copy.
      const auto note = plan.folder / failure_file_name(rank);
      if (entry_exists(note)) throw Error(Code::kCheckpoint, read_input(note, 1 << 16));
      if (!entry_exists(plan.folder))
        throw Error(Code::kCheckpoint, "'", plan.folder.string(), "' has vanished");
      if (cancelled) throw Error(Code::kCheckpoint, "given up");
      if (steady_now_s() > until) {
        throw Error(Code::kCheckpoint, "shard ", rank, " did not appear within ", std::lround(plan.timeout_s),
                    " s (checkpoint.timeout_s)");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

void NodeSave::Work::run() noexcept {
  Status how{.state = State::kDone};
  try {
    lower_priority_of_this_thread();
    for (const std::filesystem::path& shard : plan.outdated) fs::remove_tree(shard, Code::kCheckpoint);
    for (const NodeSavePlan::Copy& wanted : plan.copies) {
      try {
        copy(wanted);
      } catch (...) {
        const std::string why = caught();
        try {
          fs::replace_file(plan.folder / failure_file_name(wanted.rank), why, Code::kCheckpoint);
        } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the folder may be what failed
        }
        throw Error(Code::kCheckpoint, why);
      }
    }
    if (!plan.held.empty()) {
      wait_for_shards();
      // Every rank of the node has removed its part by now, unless it could not begin.
      plan.run_folder->keep_only(plan.stays);
      write_note(plan.folder, plan.run_id, info_text(plan.info), plan.newest_commit, plan.held);
      kill_point("memory_whole");
    }
  } catch (...) {
    how.state = State::kFailed;
    how.error = caught();
  }
  const Lock lock(mutex);
  how.copied_bytes = status.copied_bytes;
  how.seconds = steady_now_s() - began_s;
  status = std::move(how);
}

NodeSave::NodeSave(NodeSavePlan plan) : work_(std::make_shared<Work>(std::move(plan))) {
  std::thread([work = work_] { work->run(); }).detach();
}

NodeSave::~NodeSave() {
  constexpr double kGrace_s = 10;
  work_->cancelled = true;
  const double until = steady_now_s() + kGrace_s;
  while (work_->is_running() && steady_now_s() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

NodeSave::Status NodeSave::status() const {
  const Lock lock(work_->mutex);
  return work_->status;
}

}  // namespace echelon::checkpoint
