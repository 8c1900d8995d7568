#pragma once
#include "comm/communicator.h"
#include "comm/history.h"

namespace echelon {

/// A group of one rank: every operation completes at once, with the arithmetic of the larger groups.
class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator() : Communicator(0, 1) {}

  [[nodiscard]] Pending all_gather(void* buffer, std::size_t count, DType type,
                                   std::string_view label) override;
  [[nodiscard]] Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                       float scale, bool accumulate, std::string_view label) override;
  [[nodiscard]] Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                   std::string_view label) override;
  [[nodiscard]] std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override;
  void barrier(std::string_view label) override;
  [[nodiscard]] std::unique_ptr<Communicator> split(const ColorOf& color_of) override;
  [[nodiscard]] std::uint64_t sent_bytes() const override { return 0; }
  [[nodiscard]] std::vector<std::string> recent() const override { return history_.recent(); }

 private:
  void record(Operation operation);

  History history_;
  std::uint64_t sequence_ = 0;
};

}  // namespace echelon
