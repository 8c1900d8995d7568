#include "comm/mpi/mpi_collectives.h"

#include <algorithm>

#include "comm/mpi/mpi_chunked_reduce.h"
#include "comm/payload.h"
#include "comm/reduce.h"

namespace echelon {
namespace {

std::span<const std::byte> nothing(int) {
  return {};
}

std::size_t bytes_of(const Operation& operation) {
  return operation.count * size_of(operation.type);
}

std::span<const std::byte> if_small(const std::byte* bytes, std::size_t size) {
  return size <= kInlineBytes ? std::span(bytes, size) : std::span<const std::byte>();
}

}  // namespace

void mpi_barrier(MpiGroup& group, const Operation& operation) {
  MpiExchange exchange(group, operation);
  exchange.announce(nothing, [](const MpiExchange::Arrival&) {});
  exchange.run();
}

void mpi_all_gather(MpiGroup& group, const Operation& operation, void* buffer) {
  const std::size_t slot = bytes_of(operation);
  const auto slot_of = [&](int rank) {
    return static_cast<std::byte*>(buffer) + static_cast<std::size_t>(rank) * slot;
  };
  MpiExchange exchange(group, operation);
  exchange.announce([&](int) { return if_small(slot_of(group.rank), slot); },
                    [&](const MpiExchange::Arrival& arrival) {
                      if (slot <= kInlineBytes) {
                        std::ranges::copy(arrival.bytes, slot_of(arrival.peer));
                        return;
                      }
                      exchange.receive(arrival.peer, slot_of(arrival.peer), slot, MpiPhase::kFirst);
                      exchange.send(arrival.peer, slot_of(group.rank), slot, MpiPhase::kFirst);
                    });
  exchange.run();
}

void mpi_reduce_scatter(MpiGroup& group, const Operation& operation, const void* input, float* output,
                        float scale, bool accumulate, MpiWorker& worker) {
  const std::size_t slot = bytes_of(operation);
  const auto* first = static_cast<const std::byte*>(input);
  MpiExchange exchange(group, operation);
  MpiChunkedReduce reduce(
      exchange, group,
      {.element_bytes = size_of(operation.type),
       .count_of = [&](int) { return static_cast<std::size_t>(operation.count); },
       .part_of = [&](int rank) { return first + static_cast<std::size_t>(rank) * slot; },
       .combine =
           [&](std::span<const void* const> sources, std::size_t begin, std::size_t count) {
             sum_scaled(sources, operation.type, output + begin, count, scale, accumulate);
           },
       .done = {}},
      worker);
  reduce.run();
}

void mpi_all_reduce(MpiGroup& group, const Operation& operation, void* data, MpiWorker& worker) {
  const std::size_t element = size_of(operation.type);
  auto* first = static_cast<std::byte*>(data);
  // A small vector has one part, which every rank reduces for itself. Both ways sum in rank order, so the
  // size changes no bit.
  const bool whole = bytes_of(operation) <= kWholeAllReduceBytes;
  const auto begin_of = [&](int rank) { return whole ? 0 : part_begin(operation.count, rank, group.size()); };
  const auto count_of = [&](int rank) {
    return whole ? operation.count : begin_of(rank + 1) - begin_of(rank);
  };
  const auto part_of = [&](int rank) { return first + begin_of(rank) * element; };
  // Peers may still be reading the data when the sum is ready, so a whole reduction goes to a copy first. In
  // the other case the result overwrites only the own part, which this rank sends to nobody.
  std::vector<std::byte> copy(whole ? bytes_of(operation) : 0);
  std::byte* result = whole ? copy.data() : part_of(group.rank);
  MpiExchange exchange(group, operation);
  MpiChunkedReduce reduce(
      exchange, group,
      {.element_bytes = element,
       .count_of = count_of,
       .part_of = part_of,
       .combine =
           [&](std::span<const void* const> sources, std::size_t begin, std::size_t count) {
             reduce_in_order(sources, operation.type, operation.op, result + begin * element, count);
           },
       .done =
           [&] {
             if (whole) return;
             for (int peer = 0; peer < group.size(); ++peer) {
               if (peer == group.rank) continue;
               // A tag of its own: a peer may finish its part, and send the result, before its last chunks
               // for this rank.
               exchange.receive(peer, part_of(peer), count_of(peer) * element, MpiPhase::kSecond);
               exchange.send(peer, part_of(group.rank), count_of(group.rank) * element, MpiPhase::kSecond);
             }
           }},
      worker);
  reduce.run();
  if (whole) std::ranges::copy(copy, first);
}

void mpi_gather_blobs(MpiGroup& group, const Operation& operation, const Blob& mine, std::vector<Blob>& all) {
  all[static_cast<std::size_t>(group.rank)] = mine;
  MpiExchange exchange(group, operation);
  exchange.announce([&](int) { return if_small(mine.data(), mine.size()); },
                    [&](const MpiExchange::Arrival& arrival) {
                      Blob& theirs = all[static_cast<std::size_t>(arrival.peer)];
                      theirs.assign(arrival.bytes.begin(), arrival.bytes.end());
                      if (arrival.theirs.blob_bytes > kInlineBytes) {
                        theirs.resize(arrival.theirs.blob_bytes);
                        exchange.receive(arrival.peer, theirs.data(), theirs.size(), MpiPhase::kFirst);
                      }
                      if (mine.size() > kInlineBytes)
                        exchange.send(arrival.peer, mine.data(), mine.size(), MpiPhase::kFirst);
                    });
  exchange.run();
}

}  // namespace echelon
