#pragma once
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "comm/node_grid.h"
#include "comm/operation.h"

namespace echelon {

/// Up to this size every rank of an all-reduce sends its whole vector to every other and sums it alone, which
/// takes one message time. Beyond it, each rank sums one part and sends the result to all.
inline constexpr std::size_t kWholeAllReduceBytes = std::size_t{32} * 1024;

/// First element of the part of an all-reduce of `count` elements that `rank` of `size` ranks sums, if parts
/// are summed apart.
[[nodiscard]] std::uint64_t part_begin(std::uint64_t count, int rank, int size);

/// Bytes of data that `rank` of a group of `size` sends to the others in one collective between CPU ranks,
/// without announcements. `count`: as in Operation. 0 for gather-blobs and barriers.
[[nodiscard]] std::uint64_t payload_bytes(OperationKind kind, std::uint64_t count, DType type, int rank,
                                          int size);

/// Returns whether GPU ranks exchange the pieces and sum them themselves (nccl/two_byte_sum.h); otherwise
/// NCCL does.
[[nodiscard]] bool is_exchanged(OperationKind kind, DType type);

/// payload_bytes() for a rank of a group of GPUs on `grid`. Where is_exchanged() holds, it counts the pieces
/// and sums of the grid. Otherwise it returns payload_bytes(), because NCCL's rings send as much.
[[nodiscard]] std::uint64_t gpu_payload_bytes(OperationKind kind, std::uint64_t count, DType type, int rank,
                                              const NodeGrid& grid);

}  // namespace echelon
