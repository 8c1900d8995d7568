#pragma once
#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "gpu/stand_in/books.h"

/// What a collective does with the bytes of its ranks.
namespace echelon::stand_in {

enum class TransferKind { kAllGather, kReduceScatter, kAllReduce, kExchange };

/// A message between two ranks; memory of the rank that says it.
struct Message {
  int peer = 0;
  void* memory = nullptr;
  std::size_t bytes = 0;
};

/// One rank's part of a collective.
struct Transfer {
  TransferKind kind{};
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type{};
  ncclRedOp_t op = ncclSum;
  std::vector<Message> sends{};
  std::vector<Message> receives{};
  cudaStream_t stream = nullptr;
};

[[nodiscard]] std::size_t size_of(ncclDataType_t type);
/// "ncclAllGather".
[[nodiscard]] const char* name_of(TransferKind kind);
[[nodiscard]] std::string describe(const Transfer& transfer);
/// "" where these ranks' parts belong together.
[[nodiscard]] std::string difference(const std::vector<Transfer>& parts);
[[nodiscard]] std::vector<Range> reads_of(const Transfer& transfer, int size);
[[nodiscard]] std::vector<Range> writes_of(const Transfer& transfer, int size);
/// What each rank's written ranges hold afterwards, one behind the other. Sums begin at rank `first`: NCCL
/// has an order of its own.
[[nodiscard]] std::vector<std::vector<std::byte>> carry_out(const std::vector<Transfer>& parts, int first);

}  // namespace echelon::stand_in
