#include "checkpoint/format/coverage.h"

#include <algorithm>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "base/error.h"
#include "checkpoint/format/geometry.h"

namespace echelon::checkpoint {
namespace {

/// Sorts `pieces` by begin and throws Error(kCheckpoint), naming the tensor, the first element at fault and
/// the ranks, unless they cover [0, elements) exactly once.
void prove_coverage(const std::string& tensor, std::uint64_t elements, std::vector<StoredPiece>& pieces) {
  std::ranges::sort(pieces, {}, &StoredPiece::begin);
  std::uint64_t covered = 0;
  std::uint32_t last = 0;
  for (const StoredPiece& piece : pieces) {
    if (piece.begin > covered) break;  // reported below as a hole
    if (piece.begin < covered) {
      throw Error(Code::kCheckpoint, "tensor '", tensor, "': element ", piece.begin,
                  " is stored twice, by rank ", last, " and by rank ", piece.rank);
    }
    covered = piece.end;
    last = piece.rank;
  }
  if (covered < elements) {
    const auto next = std::ranges::find_if(pieces, [&](const StoredPiece& p) { return p.begin > covered; });
    throw Error(Code::kCheckpoint, "tensor '", tensor, "': elements ", covered, " to ",
                (next == pieces.end() ? elements : next->begin) - 1, " of ", elements,
                " are stored by no rank");
  }
  if (covered > elements) {
    throw Error(Code::kCheckpoint, "tensor '", tensor, "': rank ", last, " stores elements up to ", covered,
                ", but there are only ", elements);
  }
}

}  // namespace

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
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].shrink_to_fit();
    prove_coverage((*tensors_)[i].name, element_count((*tensors_)[i]), pieces_[i]);
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
