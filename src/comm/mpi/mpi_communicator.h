#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "comm/history.h"
#include "comm/mpi/mpi_exchange.h"
#include "comm/mpi/mpi_worker.h"

namespace echelon {

/// Message tags that a group takes.
inline constexpr int kTagsPerGroup = 3;

/// What all communicators of a process share: MPI's thread, the watch over the ranks' processes, and the
/// connection to failure detection.
struct MpiProcess {
  MpiProcess(double timeout_s, ProcessWatch connected) : links(std::move(connected)), worker(timeout_s) {}
  ProcessWatch links;
  MpiWorker worker;
  std::unique_ptr<PeerWatch> watch;
  int next_tag = 0;                    ///< first message tag that no group of this rank uses
  std::atomic<std::uint64_t> sent{0};  ///< bytes of data
};

/// A group of CPU ranks: numbers and checks operations here, runs them on the communication thread.
class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<MpiProcess> process, MpiGroup group);
  /// Waits for operations already issued, because they use the caller's buffers.
  ~MpiCommunicator() override;

  [[nodiscard]] Pending all_gather(void* buffer, std::size_t count, DType type,
                                   std::string_view label) override;
  [[nodiscard]] Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                       float scale, bool accumulate, std::string_view label) override;
  [[nodiscard]] Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                   std::string_view label) override;
  [[nodiscard]] std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override;
  void barrier(std::string_view label) override;
  [[nodiscard]] std::unique_ptr<Communicator> split(const ColorOf& color_of) override;
  [[nodiscard]] std::uint64_t sent_bytes() const override { return process_->sent; }
  [[nodiscard]] std::vector<std::string> recent() const override;

 private:
  struct Shared;
  template <class Run>
  [[nodiscard]] Pending issue(Operation operation, Run run);

  std::shared_ptr<MpiProcess> process_;
  std::shared_ptr<Shared> shared_;  ///< also held by every running operation
  std::uint64_t next_sequence_ = 0;
  int splits_ = 0;
};

}  // namespace echelon
