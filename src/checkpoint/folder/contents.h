#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/format/coverage.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_index.h"

/// The description of a checkpoint folder (commit, manifest, indexes), verified, without tensor bytes.
namespace echelon::checkpoint {

/// For a message: 'runs/x'.
[[nodiscard]] std::string quoted(const std::filesystem::path& path);

/// COMMIT, then the MANIFEST.json it vouches for. Throws Error(kCheckpoint); a folder without COMMIT "was
/// never committed". When the folder's name is a step folder's, it must agree.
[[nodiscard]] Manifest load_manifest(const std::filesystem::path& folder);

/// The index of one shard: right size, right checksum, right save, right rank.
[[nodiscard]] ShardIndex load_shard_index(const std::filesystem::path& folder, const Manifest& manifest,
                                          std::size_t rank);

/// Checksums of each of `tensors`, computed from the indexes alone. Throws Error(kCheckpoint) unless every
/// element of every tensor is in exactly one shard, with the type and shape of `tensors`.
[[nodiscard]] std::vector<TensorDigest> digests_of(const std::vector<TensorInfo>& tensors,
                                                   const std::vector<ShardIndex>& shards);

/// Throws what digests_of() throws, and Error(kCheckpoint), naming the tensor, unless the combined checksums
/// equal the manifest's.
void check_digests(const Manifest& manifest, const std::vector<ShardIndex>& shards);

/// The manifest's entry for the shard `name`, computed from the file itself. Throws Error(kCheckpoint).
[[nodiscard]] ManifestShard describe_shard(const std::filesystem::path& folder, const std::string& name);

struct Contents {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<ShardIndex> shards;  ///< by rank; salvage() leaves out those that are lost
};
/// All of the above. Throws Error(kCheckpoint).
[[nodiscard]] Contents load_contents(const std::filesystem::path& folder);

/// What a Reader needs before it knows what will be read: a few words per piece instead of the checksums of
/// every block.
struct Outline {
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::vector<StoredPiece>> pieces;  ///< of each of manifest.tensors, by rising begin
};
/// Of shards that cover the tensors. Throws Error(kCheckpoint) when they do not.
[[nodiscard]] Outline outline_of(const Contents& contents);

/// Does `folder` look like one checkpoint (by name or content) rather than a folder of them?
[[nodiscard]] bool is_step_folder(const std::filesystem::path& folder);

/// What an error about a folder that is no Hugging Face folder or no checkpoint says more: that it is an
/// adapter of peft, or a run or checkpoint, and how to use it. Else "".
[[nodiscard]] std::string other_kind_of(const std::filesystem::path& folder);

/// `folder` itself, or its subfolder "checkpoints" when it is a run folder.
[[nodiscard]] std::filesystem::path checkpoints_folder(const std::filesystem::path& folder);

/// The step folder that `folder` means: itself, or of a run or checkpoints folder the one committed last,
/// whole or not. Throws Error(kCheckpoint) when nothing was ever committed there.
[[nodiscard]] std::filesystem::path newest_commit(const std::filesystem::path& folder);

/// Opens a step folder, or the newest whole checkpoint of a run or checkpoints folder; damaged newer ones are
/// named in a warning and passed over. The same checks as load_contents(), with one exception: of an index
/// larger than 64 KiB only the list of pieces is read, and verified by the manifest's checksums;
/// load_shard_index() checks the rest. Throws Error(kCheckpoint) when there is none.
[[nodiscard]] Outline open_newest(const std::filesystem::path& folder);

/// Content of one attachment, verified.
[[nodiscard]] std::string load_attachment(const std::filesystem::path& folder, const Manifest& manifest,
                                          const std::string& name);
[[nodiscard]] std::string load_attachment(const std::filesystem::path& folder, const std::string& name);

}  // namespace echelon::checkpoint
