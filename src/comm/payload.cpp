#include "comm/payload.h"

#include <algorithm>

namespace echelon {

std::uint64_t part_begin(std::uint64_t count, int rank, int size) {
  const auto ranks = static_cast<std::uint64_t>(size);
  const std::uint64_t each = (count + ranks - 1) / ranks;
  return std::min(count, static_cast<std::uint64_t>(rank) * each);
}

std::uint64_t payload_bytes(OperationKind kind, std::uint64_t count, DType type, int rank, int size) {
  const std::uint64_t bytes = count * size_of(type);
  const auto others = static_cast<std::uint64_t>(size - 1);
  switch (kind) {
    case OperationKind::kAllGather:
    case OperationKind::kReduceScatter: return others * bytes;
    case OperationKind::kAllReduce: {
      if (bytes <= kWholeAllReduceBytes) return others * bytes;
      const std::uint64_t own =
          (part_begin(count, rank + 1, size) - part_begin(count, rank, size)) * size_of(type);
      return bytes - own + others * own;  // the parts of others, then the sum of its own to all
    }
    case OperationKind::kGatherBlobs:
    case OperationKind::kBarrier: return 0;
  }
  return 0;
}

bool is_exchanged(OperationKind kind, DType type) {
  return kind == OperationKind::kReduceScatter && size_of(type) == 2;
}

std::uint64_t gpu_payload_bytes(OperationKind kind, std::uint64_t count, DType type, int rank,
                                const NodeGrid& grid) {
  if (is_exchanged(kind, type) && grid.nodes > 1) return grid.bytes_within(count) + grid.bytes_between(count);
  return payload_bytes(kind, count, type, rank, grid.nodes * grid.local);
}

}  // namespace echelon
