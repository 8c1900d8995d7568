#include "checkpoint/read/shard_indexes.h"

namespace echelon::checkpoint {

ShardIndexes::ShardIndexes(std::filesystem::path folder, const Manifest& manifest)
    : folder_(std::move(folder)), manifest_(&manifest), loaded_(manifest.shards.size()) {}

ShardIndexes::ShardIndexes(std::filesystem::path folder, const Manifest& manifest,
                           std::vector<ShardIndex> loaded)
    : ShardIndexes(std::move(folder), manifest) {
  for (ShardIndex& index : loaded) {
    std::unique_ptr<const ShardIndex>& place = loaded_.at(static_cast<std::size_t>(index.rank));
    place = std::make_unique<const ShardIndex>(std::move(index));
  }
}

const ShardIndex& ShardIndexes::of(std::size_t rank) const {
  const Lock lock(mutex_);
  std::unique_ptr<const ShardIndex>& index = loaded_.at(rank);
  if (!index) {
    index = std::make_unique<const ShardIndex>(load_shard_index(folder_, *manifest_, rank));
  }
  return *index;
}

std::filesystem::path ShardIndexes::path(std::size_t rank) const {
  return folder_ / manifest_->shards.at(rank).file;
}

InputFile ShardIndexes::open(std::size_t rank) const {
  InputFile file = open_input(path(rank));
  const std::uint64_t expected = manifest_->shards.at(rank).bytes;
  if (file.bytes == expected) return file;
  throw Error(Code::kCheckpoint, "shard '", path(rank).string(), "' changed from ", expected, " to ",
              file.bytes, " bytes while it was read");
}

}  // namespace echelon::checkpoint
