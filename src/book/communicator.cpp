#include "book/communicator.h"

#include <ATen/core/Tensor.h>

#include <numeric>
#include <utility>

#include "base/error.h"
#include "book/books.h"
#include "book/device.h"
#include "comm/payload.h"

namespace echelon::book {
namespace {

class WaitedFor final : public Pending::State {
 public:
  explicit WaitedFor(std::uint32_t message) : message_(message) {}
  void wait() override { books().wait(message_); }

 private:
  std::uint32_t message_;
};

class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(int rank, forecast::Group group)
      : Communicator(rank, static_cast<int>(group.ranks.size())),
        ranks_(group.ranks),
        on_host_(group.on_host),
        group_(books().add_group(std::move(group))) {}

  Pending all_gather(void*, std::size_t count, DType type, std::string_view label) override {
    return issue(OperationKind::kAllGather, count, type, label);
  }
  Pending reduce_scatter(void*, DType in_type, float*, std::size_t count, float, bool,
                         std::string_view label) override {
    if (size_of(in_type) == 2) keep_scratch(count * 2 * static_cast<std::size_t>(size()));
    return issue(OperationKind::kReduceScatter, count, in_type, label);
  }
  Pending all_reduce(void*, std::size_t count, DType type, ReduceOp, std::string_view label) override {
    return issue(OperationKind::kAllReduce, count, type, label);
  }
  Pending broadcast(void*, std::size_t bytes, int, std::string_view label) override {
    return issue(OperationKind::kBroadcast, bytes, DType::kU8, label);
  }
  std::vector<Blob> gather_blobs(const Blob& mine, std::string_view) override {
    return std::vector<Blob>(static_cast<std::size_t>(size()), mine);
  }
  void barrier(std::string_view) override {}
  std::unique_ptr<Communicator> split(int, int) override {
    throw Error(Code::kUsage, "internal error: a recording communicator does not know the colours of others");
  }
  std::unique_ptr<Communicator> split_by(const ColourOf& colour) override {
    forecast::Group group{{}, on_host_};
    int place = 0;
    for (int rank = 0; rank < size(); ++rank) {
      if (colour(rank) != colour(this->rank())) continue;
      if (rank == this->rank()) place = static_cast<int>(group.ranks.size());
      group.ranks.push_back(ranks_[static_cast<std::size_t>(rank)]);
    }
    return std::make_unique<RecordingCommunicator>(place, std::move(group));
  }
  std::vector<std::string> recent() const override { return {}; }

 private:
  /// Two-byte gradients between GPUs are exchanged through memory for the pieces of all ranks, which a
  /// communicator keeps (nccl_communicator.cpp).
  void keep_scratch(std::size_t bytes) {
    if (on_host_ || size() == 1 || bytes <= scratch_bytes_) return;
    scratch_.clear();
    scratch_ = c10::GetAllocator(recording_device().type())->allocate(bytes);
    scratch_bytes_ = bytes;
  }

  Pending issue(OperationKind kind, std::size_t count, DType type, std::string_view label) {
    const forecast::Message message{
        .kind = kind,
        .type = type,
        .count = count,
        .sent_bytes = static_cast<double>(payload_bytes(kind, count, type, rank(), size())),
        .group = group_};
    return Pending(std::make_shared<WaitedFor>(books().issue(message, label)));
  }

  std::vector<int> ranks_;  ///< numbers in the job
  bool on_host_;
  at::DataPtr scratch_;
  std::size_t scratch_bytes_ = 0;
  std::uint16_t group_;
};

}  // namespace

std::unique_ptr<Communicator> make_recording_communicator(int rank, int size, bool on_host) {
  forecast::Group all{std::vector<int>(static_cast<std::size_t>(size)), on_host};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  return std::make_unique<RecordingCommunicator>(rank, std::move(all));
}

}  // namespace echelon::book
