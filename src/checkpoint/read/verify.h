#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/shard_index.h"

namespace echelon::checkpoint {

enum class VerifyDepth {
  kQuick,  ///< COMMIT, MANIFEST, the trainer's state, attachments, every shard's size and index, coverage; no
           ///< tensor bytes
  kDeep,   ///< also every byte of every shard against its checksum
};

/// One thing wrong. `rank` is -1 and `tensor` empty where they do not apply; bytes [byte_begin, byte_end) of
/// `file`.
struct Damage {
  std::string file;
  int rank = -1;
  std::string tensor;
  std::uint64_t element_begin = 0;
  std::uint64_t element_end = 0;
  std::uint64_t byte_begin = 0;
  std::uint64_t byte_end = 0;
  std::string problem;  ///< one sentence, complete in itself
};

struct VerifyReport {
  std::int64_t step = -1;  ///< -1: not even the manifest can be trusted
  std::string save_id;
  std::uint64_t bytes_checked = 0;
  std::vector<Damage> damages;  ///< empty: the checkpoint is whole
};

/// Called with (bytes done, bytes in all) now and then; may throw to stop.
using VerifyProgress = std::function<void(std::uint64_t, std::uint64_t)>;

/// Looks at one step folder and goes on after the first damage. Throws what `progress` throws.
[[nodiscard]] VerifyReport verify(const std::filesystem::path& folder, VerifyDepth depth,
                                  const VerifyProgress& progress);

/// Checks the bytes of a shard that belong to no tensor, its HDF5 metadata above all, against the index:
/// libhdf5 may parse the file then as what we wrote. Throws Error(kCheckpoint).
void check_layout(const std::filesystem::path& shard, const ShardIndex& index);

}  // namespace echelon::checkpoint
