#include "comm/mpi/mpi_chunked_reduce.h"

#include <algorithm>

namespace echelon {
namespace {

// A chunk should fit a core's cache; below the smallest size the cost of a message dominates. With many
// ranks chunks shrink, so that the staging memory stays bounded.
constexpr std::size_t kChunkBytes = 512 * 1024;
constexpr std::size_t kSmallestChunkBytes = 32 * 1024;
constexpr std::size_t kStagingBytes = 64 * 1024 * 1024;
constexpr std::size_t kBanks = 2;
// Chunks offered to one peer at a time. More than the peer has banks, so that it need not wait until this
// rank polls again.
constexpr std::size_t kSendWindow = 4;

std::size_t chunk_bytes(int ranks) {
  return std::clamp(kStagingBytes / (kBanks * static_cast<std::size_t>(ranks)), kSmallestChunkBytes,
                    kChunkBytes);
}

// Must give the same answer on every rank, since it decides whether data follow the announcements: it looks
// at the parts of all ranks, not only at those of this one.
bool all_inline(const MpiChunkedReduce::Plan& plan, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (plan.count_of(rank) * plan.element_bytes > kInlineBytes) return false;
  }
  return true;
}

}  // namespace

MpiChunkedReduce::MpiChunkedReduce(MpiExchange& exchange, const MpiGroup& group, Plan plan, MpiWorker& worker)
    : exchange_(exchange),
      group_(group),
      plan_(std::move(plan)),
      rank_(group.rank),
      small_(all_inline(plan_, group.size())),
      chunk_elements_(small_ ? kInlineBytes / plan_.element_bytes
                             : chunk_bytes(group.size()) / plan_.element_bytes),
      unannounced_(group.size() - 1),
      sent_(static_cast<std::size_t>(group.size())),
      pending_(kBanks, static_cast<std::size_t>(group.size()) - 1),
      sources_(static_cast<std::size_t>(group.size())) {
  staging_ =
      worker.staging(kBanks * static_cast<std::size_t>(group.size()) * chunk_elements_ * plan_.element_bytes);
}

std::size_t MpiChunkedReduce::chunks_of(int rank) const {
  return (plan_.count_of(rank) + chunk_elements_ - 1) / chunk_elements_;
}

std::size_t MpiChunkedReduce::chunk_count(int rank, std::size_t chunk) const {
  return std::min(chunk_elements_, plan_.count_of(rank) - chunk * chunk_elements_);
}

std::byte* MpiChunkedReduce::landing(int peer, std::size_t chunk) const {
  const std::size_t slot =
      (chunk % kBanks) * static_cast<std::size_t>(group_.size()) + static_cast<std::size_t>(peer);
  return staging_ + slot * chunk_elements_ * plan_.element_bytes;
}

void MpiChunkedReduce::run() {
  exchange_.announce(
      [this](int peer) -> std::span<const std::byte> {
        if (!small_) return {};
        return {plan_.part_of(peer), plan_.count_of(peer) * plan_.element_bytes};
      },
      [this](const MpiExchange::Arrival& arrival) { on_arrival(arrival); });
  exchange_.run();
}

void MpiChunkedReduce::on_arrival(const MpiExchange::Arrival& arrival) {
  // A rank that owns no part combines nothing: it is done when all announcements have come.
  const bool all_announced = --unannounced_ == 0;
  if (small_) {
    std::ranges::copy(arrival.bytes, landing(arrival.peer, 0));
    if (chunks_of(rank_) > 0) on_chunk(0);
  } else {
    start_chunks(arrival.peer);
  }
  if (all_announced && chunks_of(rank_) == 0 && plan_.done) plan_.done();
}

void MpiChunkedReduce::start_chunks(int peer) {
  for (std::size_t chunk = 0; chunk < std::min(kBanks, chunks_of(rank_)); ++chunk) receive_chunk(peer, chunk);
  for (std::size_t n = 0; n < kSendWindow; ++n) send_next_chunk(peer);
}

void MpiChunkedReduce::receive_chunk(int peer, std::size_t chunk) {
  exchange_.receive(peer, landing(peer, chunk), chunk_count(rank_, chunk) * plan_.element_bytes,
                    MpiPhase::kFirst, [this, chunk] { on_chunk(chunk); });
}

void MpiChunkedReduce::send_next_chunk(int peer) {
  // Sends complete in any order, but start in the order of the chunks: messages carry no chunk number, and
  // MPI matches those of one pair and tag in the order they were started.
  const std::size_t chunk = sent_[static_cast<std::size_t>(peer)];
  if (chunk == chunks_of(peer)) return;
  ++sent_[static_cast<std::size_t>(peer)];
  const std::byte* bytes = plan_.part_of(peer) + chunk * chunk_elements_ * plan_.element_bytes;
  exchange_.send(peer, bytes, chunk_count(peer, chunk) * plan_.element_bytes, MpiPhase::kFirst,
                 [this, peer] { send_next_chunk(peer); });
}

// Chunks complete in any order, but are combined in order: a bank is free for chunk k + kBanks only when
// chunk k has been combined.
void MpiChunkedReduce::on_chunk(std::size_t chunk) {
  --pending_[chunk % kBanks];
  while (next_ < chunks_of(rank_) && pending_[next_ % kBanks] == 0) combine_next();
}

void MpiChunkedReduce::combine_next() {
  const std::size_t begin = next_ * chunk_elements_;
  // Sources are listed in rank order whatever the order of arrival: that makes the sum bitwise
  // reproducible.
  for (int rank = 0; rank < group_.size(); ++rank) {
    sources_[static_cast<std::size_t>(rank)] =
        rank == rank_ ? plan_.part_of(rank_) + begin * plan_.element_bytes : landing(rank, next_);
  }
  plan_.combine(sources_, begin, chunk_count(rank_, next_));
  pending_[next_ % kBanks] = static_cast<std::size_t>(group_.size()) - 1;
  const std::size_t freed = next_++;
  if (freed + kBanks < chunks_of(rank_)) {
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer != rank_) receive_chunk(peer, freed + kBanks);
    }
  }
  if (next_ == chunks_of(rank_) && plan_.done) plan_.done();
}

}  // namespace echelon
