#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/write/commit.h"

/// The two small files beside the shards of a memory checkpoint on one node. A memory checkpoint has neither
/// MANIFEST.json nor COMMIT, because no node knows the shards of all others when it is made.
namespace echelon::checkpoint {

/// All of a checkpoint but its tensor bytes, the same on every node.
inline constexpr std::string_view kInfoFile = "INFO";
/// What this node holds. It appears by rename when all of that is in place.
inline constexpr std::string_view kNodeFile = "NODE.json";
inline constexpr std::uint64_t kMaxInfoBytes = std::uint64_t{1} << 30;

/// The text of INFO: the length of a manifest without sizes and checksums of shards and a newline, the
/// manifest, the attachments in the order of their names.
[[nodiscard]] std::string info_text(const CommitInfo& info);
/// Throws Error(kCheckpoint) naming `what`.
[[nodiscard]] CommitInfo parse_info(const std::string& text, const std::string& what);

/// A shard that a node holds, its own or a copy.
struct HeldShard {
  int rank = 0;
  std::uint64_t bytes = 0;
  std::uint32_t index_crc = 0;
  bool operator==(const HeldShard&) const = default;
};

/// The contents of NODE.json.
struct MemoryNote {
  std::string run_id;
  std::int64_t step = 0;
  std::string save_id;
  int ranks = 0;                    ///< shards of the whole checkpoint
  std::int64_t newest_commit = -1;  ///< step of the run's newest commit on disk then; -1: there was none
  std::uint64_t info_bytes = 0;
  std::uint32_t info_crc = 0;
  std::vector<HeldShard> shards;  ///< by rising rank
  bool operator==(const MemoryNote&) const = default;
};
[[nodiscard]] std::string note_text(const MemoryNote& note);
/// Only the spelling of note_text() is accepted. Throws Error(kCheckpoint) naming `what`.
[[nodiscard]] MemoryNote parse_note(const std::string& source, const std::string& what);

/// Writes INFO and then, as the last file of a step folder, NODE.json for the shards of these ranks, which
/// are in place. `newest_commit`: as in the note. Throws Error(kCheckpoint).
void write_note(const std::filesystem::path& step_folder, const std::string& run_id, const std::string& info,
                std::int64_t newest_commit, const std::vector<int>& held);

/// A memory checkpoint as far as a node holds it whole.
struct FoundNote {
  std::filesystem::path folder;
  MemoryNote note;      ///< with those of its shards that are sound
  std::string problem;  ///< what is not; empty if all is
};
/// In the run's folder of this node, newest first: sizes and indexes are checked, no tensor bytes. Step
/// folders without a valid note are `left_out`, with the reason. Throws Error::of_system() where the system
/// cannot tell.
[[nodiscard]] std::vector<FoundNote> find_notes(const std::filesystem::path& run_folder,
                                                const std::string& run_id,
                                                std::vector<std::string>& left_out);

}  // namespace echelon::checkpoint
