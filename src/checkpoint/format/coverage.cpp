#include "checkpoint/format/coverage.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "base/error.h"
#include "checkpoint/format/geometry.h"

namespace echelon::checkpoint {

Coverage::Coverage(const std::vector<TensorInfo>& tensors) : tensors_(&tensors), pieces_(tensors.size()) {
  for (std::size_t i = 0; i < tensors.size(); ++i) numbers_[tensors[i].name] = i;
}

void Coverage::add(int rank, std::span<const ShardEntry> entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ShardEntry& entry = entries[i];
    const auto found = numbers_.find(entry.tensor.name);
    if (found == numbers_.end()) {
      throw Error(Code::kCheckpoint, "rank ", rank, " stores tensor '", entry.tensor.name,
                  "', which the checkpoint does not have");
    }
    const TensorInfo& tensor = (*tensors_)[found->second];
    if (entry.tensor.dtype != tensor.dtype || entry.tensor.shape != tensor.shape) {
      throw Error(Code::kCheckpoint, "rank ", rank, " stores tensor '", tensor.name, "' as ",
                  name_of(entry.tensor.dtype), ' ', shape_text(entry.tensor.shape), ", expected ",
                  name_of(tensor.dtype), ' ', shape_text(tensor.shape));
    }
    pieces_[found->second].push_back({.begin = entry.begin,
                                      .end = entry.end,
                                      .fingerprint = entry.fingerprint,
                                      .crc = entry.crc,
                                      .rank = static_cast<std::uint32_t>(rank),
                                      .entry = static_cast<std::uint32_t>(i)});
  }
}

void Coverage::prove() {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    ranges.clear();
    pieces_[i].shrink_to_fit();
    for (const StoredPiece& piece : pieces_[i])
      ranges.push_back({piece.begin, piece.end, static_cast<int>(piece.rank)});
    prove_coverage((*tensors_)[i].name, element_count((*tensors_)[i]), ranges);
    std::ranges::sort(pieces_[i], {}, &StoredPiece::begin);
  }
}

std::vector<TensorDigest> Coverage::digests() const {
  std::vector<TensorDigest> digests(pieces_.size());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::uint64_t size = size_of((*tensors_)[i].dtype);
    for (const StoredPiece& piece : pieces_[i]) {
      const std::uint64_t bytes = (piece.end - piece.begin) * size;
      // Pieces are sorted by begin here: combining is not commutative.
      digests[i].crc = crc32c_combine(digests[i].crc, piece.crc, bytes);
      digests[i].fingerprint = crc64_combine(digests[i].fingerprint, piece.fingerprint, bytes);
    }
  }
  return digests;
}

}  // namespace echelon::checkpoint
