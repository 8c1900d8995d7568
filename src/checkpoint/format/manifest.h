#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/shard_index.h"
#include "checkpoint/format/tensor.h"

/// MANIFEST.json and COMMIT: text in, checked structure out, and back.
namespace echelon::checkpoint {

inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMaxCommitBytes = 4096;
inline constexpr std::uint64_t kMaxAttachmentBytes = std::uint64_t{256} << 20;

struct ManifestShard {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint32_t index_crc = 0;
};
struct ManifestAttachment {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
};

/// Checksums of a whole tensor's bytes, independent of how it was cut.
struct TensorDigest {
  std::uint32_t crc = 0;          ///< CRC-32C
  std::uint64_t fingerprint = 0;  ///< CRC-64/NVME
  bool operator==(const TensorDigest&) const = default;
};

struct Manifest {
  int format_minor = kFormatMinor;
  std::int64_t step = 0;
  std::string save_id;
  std::string resumed_from;           ///< KnownSteps::resumed_from
  std::vector<ManifestShard> shards;  ///< by rank; their number is the world size
  std::vector<TensorInfo> tensors;    ///< by name
  std::vector<TensorDigest> digests;  ///< of each tensor; none at all in format 1.0
  std::map<std::string, ManifestAttachment> attachments;
  std::string trainer_state;                    ///< JSON object, compact
  std::map<std::string, std::string> versions;  ///< program -> version, for people
};
[[nodiscard]] std::string manifest_text(const Manifest& manifest);
/// Everything checked: names, limits, order, one shard a rank. Throws Error(kCheckpoint) naming `what`.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& what);

struct Commit {
  int format_minor = kFormatMinor;
  std::int64_t step = 0;
  std::string save_id;
  std::uint64_t manifest_bytes = 0;
  std::uint32_t manifest_crc = 0;
};
[[nodiscard]] std::string commit_text(const Commit& commit);
/// Only the canonical spelling is accepted: every flipped bit either breaks it or changes a value that is
/// checked.
[[nodiscard]] Commit parse_commit(std::string_view text, const std::string& what);

}  // namespace echelon::checkpoint
