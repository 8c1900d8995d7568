#include "gpu/stand_in/transfers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/str.h"

namespace echelon::stand_in {
namespace {

const std::byte* bytes_at(const void* memory) {
  return static_cast<const std::byte*>(memory);
}

template <class T>
void reduce(std::byte* into, const std::byte* other, std::size_t bytes, ncclRedOp_t op) {
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, into + at, sizeof(T));
    std::memcpy(&b, other + at, sizeof(T));
    a = op == ncclSum ? a + b : op == ncclMax ? std::max(a, b) : std::min(a, b);
    std::memcpy(into + at, &a, sizeof(T));
  }
}

void reduce(std::byte* into, const std::byte* other, std::size_t bytes, const Transfer& how) {
  switch (how.type) {
    case ncclFloat32: return reduce<float>(into, other, bytes, how.op);
    case ncclFloat64: return reduce<double>(into, other, bytes, how.op);
    case ncclInt64: return reduce<std::int64_t>(into, other, bytes, how.op);
    default: std::memset(into, 0, bytes);  // no sum of ours: a test sees it
  }
}

/// `bytes` from `offset` of every rank's input, reduced.
std::vector<std::byte> reduced(const std::vector<Transfer>& parts, std::size_t offset, std::size_t bytes,
                               int first) {
  const std::size_t size = parts.size();
  const std::byte* begin = bytes_at(parts[static_cast<std::size_t>(first)].send) + offset;
  std::vector<std::byte> sum(begin, begin + bytes);
  for (std::size_t i = 1; i < size; ++i) {
    const Transfer& other = parts[(static_cast<std::size_t>(first) + i) % size];
    reduce(sum.data(), bytes_at(other.send) + offset, bytes, other);
  }
  return sum;
}

/// What arrives at `rank`, for each of its receives: as in NCCL, those between two ranks are matched in their
/// order. Null where nothing was sent.
std::vector<const Message*> messages_to(int rank, const std::vector<Transfer>& parts) {
  std::vector<std::vector<const Message*>> from(parts.size());
  for (std::size_t peer = 0; peer < parts.size(); ++peer)
    for (const Message& message : parts[peer].sends)
      if (message.peer == rank) from[peer].push_back(&message);
  std::vector<std::size_t> taken(parts.size(), 0);
  std::vector<const Message*> found;
  for (const Message& receive : parts[static_cast<std::size_t>(rank)].receives) {
    const auto peer = static_cast<std::size_t>(receive.peer);
    const bool there = peer < parts.size() && taken[peer] < from[peer].size();
    found.push_back(there ? from[peer][taken[peer]++] : nullptr);
  }
  return found;
}

void append(std::vector<std::byte>& to, const void* memory, std::size_t bytes) {
  to.insert(to.end(), bytes_at(memory), bytes_at(memory) + bytes);
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
    case ncclInt32: return 4;
    case ncclFloat64:
    case ncclInt64: return 8;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    default: return 1;
  }
}

const char* name_of(TransferKind kind) {
  static constexpr const char* kNames[] = {"ncclAllGather", "ncclReduceScatter", "ncclAllReduce",
                                           "ncclSend/ncclRecv"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string describe(const Transfer& transfer) {
  return str(name_of(transfer.kind), " of ", transfer.count, " x type ", static_cast<int>(transfer.type));
}

std::string difference(const std::vector<Transfer>& parts) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Transfer& a = parts[0];
    const Transfer& b = parts[rank];
    if (a.kind != b.kind || a.count != b.count || a.type != b.type || a.op != b.op)
      return str("rank 0 is at ", describe(a), ", rank ", rank, " at ", describe(b));
    const std::vector<const Message*> sent = messages_to(static_cast<int>(rank), parts);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Message& message = b.receives[i];
      if (sent[i] == nullptr || sent[i]->bytes != message.bytes)
        return str("rank ", rank, " expects ", message.bytes, " bytes that rank ", message.peer,
                   " does not send");
    }
  }
  return {};
}

std::vector<Range> reads_of(const Transfer& transfer, int size) {
  const std::size_t bytes = transfer.count * size_of(transfer.type);
  std::vector<Range> ranges;
  switch (transfer.kind) {
    case TransferKind::kAllGather:
    case TransferKind::kAllReduce: return {{transfer.send, bytes}};
    case TransferKind::kReduceScatter: return {{transfer.send, bytes * static_cast<std::size_t>(size)}};
    case TransferKind::kExchange:
      for (const Message& message : transfer.sends) ranges.push_back({message.memory, message.bytes});
  }
  return ranges;
}

std::vector<Range> writes_of(const Transfer& transfer, int size) {
  const std::size_t bytes = transfer.count * size_of(transfer.type);
  std::vector<Range> ranges;
  switch (transfer.kind) {
    case TransferKind::kAllGather:  // a rank's own part too: NCCL may write it
      return {{transfer.receive, bytes * static_cast<std::size_t>(size)}};
    case TransferKind::kAllReduce:
    case TransferKind::kReduceScatter: return {{transfer.receive, bytes}};
    case TransferKind::kExchange:
      for (const Message& message : transfer.receives) ranges.push_back({message.memory, message.bytes});
  }
  return ranges;
}

std::vector<std::vector<std::byte>> carry_out(const std::vector<Transfer>& parts, int first) {
  std::vector<std::vector<std::byte>> results(parts.size());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Transfer& own = parts[rank];
    const std::size_t bytes = own.count * size_of(own.type);
    switch (own.kind) {
      case TransferKind::kAllGather:
        for (const Transfer& part : parts) append(results[rank], part.send, bytes);
        break;
      case TransferKind::kAllReduce: results[rank] = reduced(parts, 0, bytes, first); break;
      case TransferKind::kReduceScatter: results[rank] = reduced(parts, rank * bytes, bytes, first); break;
      case TransferKind::kExchange:
        for (const Message* sent : messages_to(static_cast<int>(rank), parts))
          append(results[rank], sent->memory, sent->bytes);
    }
  }
  return results;
}

}  // namespace echelon::stand_in
