#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/files/new_file.h"
#include "base/steady_time.h"
#include "checkpoint/format/shard_runs.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/shard_plan.h"
#include "checkpoint/write/staging.h"

namespace echelon::checkpoint {

/// Bounds on writing one shard.
struct WriteLimits {
  std::uint64_t bytes_per_s = 0;                 ///< 0: as fast as the disk
  double timeout_s = 0;                          ///< from the creation of the file; 0: none
  bool reserves = true;                          ///< the space of the file when it is created
  std::function<double()> now_s = steady_now_s;  ///< the clock of both
};

/// Writes one shard with two threads: stage() copies the state, write() writes the copy to disk. The CRC-32C
/// of every block is computed during the copy and verified before the write, so any change of the copy in
/// between is detected.
///
/// The file is named shard-R-of-N.h5.part until all of it is on disk; with its final name it is durable.
class ShardWrite {
 public:
  /// Creates the file in `folder`, which exists, and (limits.reserves) reserves its space: a full disk shows
  /// now. `plan` is that of these slices. `staging`, used by no other save, must outlive it. `bytes_per_s`
  /// limits the rate of writing; 0: no limit. Throws Error(kCheckpoint).
  ShardWrite(const std::filesystem::path& folder, ShardPlan plan, std::vector<Slice> slices, Staging& staging,
             const WriteLimits& limits);

  /// Copies everything; afterwards the slices' bytes may change. Returns as well when write() has failed, or
  /// hangs until limits.timeout_s has passed: it fails then as soon as it goes on.
  /// Throws what a Slice::read throws, after which write() throws an Error of the same text.
  void stage();

  /// Writes what stage() copies, makes it durable and gives the file its name. Throws Error(kCheckpoint); the
  /// file is removed then, and no write or flush is tried a second time.
  void write();

  [[nodiscard]] std::uint64_t file_bytes() const { return plan_.index.file_bytes; }
  /// After stage().
  [[nodiscard]] std::uint32_t blocks_crc() const { return checkpoint::blocks_crc(plan_.index); }

 private:
  void fill(std::span<std::byte> window, std::uint64_t file_offset);
  void check(std::span<const std::byte> window, std::uint64_t file_offset);
  void write_windows();
  void slow_down(std::uint64_t written, double writing_since_s) const;
  [[nodiscard]] double left_s() const;  ///< until the timeout

  std::filesystem::path path_;
  ShardPlan plan_;
  std::vector<Slice> slices_;
  Staging* staging_;
  WriteLimits limits_;
  double began_s_;
  fs::NewFile file_;
  std::string stage_error_;
  PieceSums sums_;  ///< of what was written
};

/// Writes shard-RRRRR-of-NNNNN.h5 into `folder` (which exists) and makes it durable. All, or an
/// Error(kCheckpoint) or what a Slice::read throws. Needs 32 MiB of memory beside the slices. One call per
/// rank and save.
void write_shard(const std::filesystem::path& folder, int rank, int ranks, const std::string& save_id,
                 std::vector<Slice> slices);

}  // namespace echelon::checkpoint
