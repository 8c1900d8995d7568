#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/not_copied.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/commit.h"
#include "checkpoint/write/shard_plan.h"
#include "checkpoint/write/staging.h"

namespace echelon::checkpoint {

/// What all ranks of one save agree on in advance.
struct SavePlan {
  std::filesystem::path folder;   ///< the step folder; every rank may create it
  CommitInfo commit;              ///< used by rank 0
  std::uint64_t bytes_per_s = 0;  ///< limit on the rate of writing; 0: none
  bool waits = false;       ///< training waits for the end: a pipe is as fast as a full copy, and needs less
  double timeout_s = 1800;  ///< after which rank 0 gives up on shards that do not come
  /// Part of a memory checkpoint: no space is reserved while training waits, the thread has a low priority,
  /// and rank 0 neither waits for other shards nor commits.
  bool in_memory = false;
  std::function<void()> before_write = {};  ///< on the writing thread; may be empty
  /// Rank 0, on the writing thread, after a commit that no loss of power can undo; may be empty. What it
  /// throws is a warning in the log: nothing makes a committed save fail.
  std::function<void()> on_commit;
};

/// One rank's part of one save, written by a separate thread. Rank 0's thread also waits for the other
/// ranks' shards, which have their names only when they are durable, and commits. The ranks
/// coordinate only through the folder: a rank that fails leaves a file there that says why. If the folder
/// itself fails, give_up() passes the news on.
class RankSave : NotCopied {
 public:
  enum class State { kRunning, kDone, kFailed };
  struct Status {
    State state = State::kRunning;
    std::string error;  ///< why it failed
    std::string doubt;  ///< rank 0: committed, but a loss of power may undo it; the reason
    bool committed =
        false;           ///< rank 0: no loss of power can undo it; while it runs, SavePlan::on_commit does
    double seconds = 0;  ///< age_s() at the end, or at the commit
  };

  /// Creates folder and file and reserves the space, so that a full disk shows here; then starts the thread.
  /// Throws Error(kCheckpoint), or what the system throws where it has no memory or thread left, and leaves a
  /// note for rank 0.
  /// `layout`: this rank's plan of these slices for this save.
  RankSave(SavePlan plan, ShardPlan layout, std::vector<Slice> slices, std::shared_ptr<Staging> staging);
  /// Abandons what is not done within 10 s. A thread that hangs in a system call is left behind.
  ~RankSave();

  /// Copies the state; when it returns, the slices' bytes may change. Never throws: see status().
  void stage();

  /// After stage(): nobody needs this save any more. It ends with the window that is being written.
  void abandon();

  /// Rank 0: another rank has reported its failure, not through the folder. Ends the wait for shards.
  void give_up(const std::string& why);

  /// Seconds since the creation of the object, but for those in which the process was stopped.
  [[nodiscard]] double age_s() const;
  [[nodiscard]] Status status() const;
  /// Waits at most `seconds` for the end.
  [[nodiscard]] Status wait(double seconds) const;
  [[nodiscard]] std::uint64_t bytes() const;  ///< of this rank's file
  /// After stage(): blocks_crc() of the index that the file will have.
  [[nodiscard]] std::uint32_t blocks_crc() const;

 private:
  struct Work;
  std::shared_ptr<Work> work_;
  bool staged_ = false;
};

}  // namespace echelon::checkpoint
