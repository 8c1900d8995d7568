#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "comm/communicator.h"

namespace echelon {

enum class OperationKind : std::uint8_t {
  kAllGather = 1,
  kReduceScatter = 2,
  kAllReduce = 3,
  kGatherBlobs = 4,
  kBarrier = 5,
};

/// One rank's announcement of an operation. Plain bytes: it travels ahead of the operation's data, and both
/// sides compare it with their own.
struct Operation {
  std::uint64_t sequence = 0;  ///< 0, 1, ... in its group
  std::uint64_t count = 0;     ///< elements of `type`; per rank for all-gather and reduce-scatter
  std::uint64_t label_hash = 0;
  std::uint64_t blob_bytes = 0;  ///< gather-blobs only: the sender's size, free to differ
  OperationKind kind = OperationKind::kBarrier;
  DType type = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t reserved[5] = {};
  char label[56] = {};  ///< the label's beginning, zero-terminated; all of it is in the hash
};
static_assert(sizeof(Operation) == 96);

/// Throws Error for a reduction that has no sums of `type`.
[[nodiscard]] Operation make_operation(OperationKind kind, std::uint64_t count, DType type,
                                       std::string_view label);

/// Everything that ranks must agree about.
[[nodiscard]] bool matches(const Operation& a, const Operation& b);

/// "all-gather 'layers.3' 393216 x bf16".
[[nodiscard]] std::string describe(const Operation& operation);

}  // namespace echelon
