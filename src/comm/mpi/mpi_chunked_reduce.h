#pragma once
#include <functional>
#include <span>
#include <vector>

#include "comm/mpi/mpi_collectives.h"

namespace echelon {

/// The reducing half of reduce-scatter and all-reduce. Every rank owns one part of the vector; it receives
/// that part from every other rank, in chunks that fit a cache, and combines chunk k while chunk k+1 arrives.
/// Staging memory is two chunks per peer however long the vector is.
class MpiChunkedReduce {
 public:
  struct Plan {
    std::size_t element_bytes = 0;
    std::function<std::size_t(int rank)> count_of;  ///< elements of the part that `rank` owns
    /// This rank's contribution to the part that `rank` owns.
    std::function<const std::byte*(int rank)> part_of;
    /// Elements [begin, begin + count) of the own part: one source per rank, in rank order.
    std::function<void(std::span<const void* const> sources, std::size_t begin, std::size_t count)> combine;
    std::function<void()> done;  ///< when the own part is complete; may start further messages
  };

  MpiChunkedReduce(MpiExchange& exchange, const MpiGroup& group, Plan plan, MpiWorker& worker);

  /// Announces the operation and runs the exchange to its end.
  void run();

 private:
  [[nodiscard]] std::size_t chunks_of(int rank) const;
  [[nodiscard]] std::size_t chunk_count(int rank, std::size_t chunk) const;
  [[nodiscard]] std::byte* landing(int peer, std::size_t chunk) const;
  void on_arrival(const MpiExchange::Arrival& arrival);
  void start_chunks(int peer);
  void receive_chunk(int peer, std::size_t chunk);
  void send_next_chunk(int peer);
  void on_chunk(std::size_t chunk);
  void combine_next();

  MpiExchange& exchange_;
  const MpiGroup& group_;
  const Plan plan_;
  const int rank_;
  const bool small_;  ///< every part travels with the announcement
  const std::size_t chunk_elements_;
  std::byte* staging_ = nullptr;      ///< [bank 0, 1][peer][chunk]
  int unannounced_;                   ///< peers whose announcement has not arrived
  std::vector<std::size_t> sent_;     ///< chunks started toward each peer
  std::vector<std::size_t> pending_;  ///< peers whose chunk has not arrived, for each of the two banks
  std::size_t next_ = 0;              ///< first chunk of the own part not combined yet
  std::vector<const void*> sources_;
};

}  // namespace echelon
