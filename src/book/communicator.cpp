#include "book/communicator.h"

#include <ATen/core/Tensor.h>

#include <numeric>
#include <utility>

#include "base/error.h"
#include "book/books.h"
#include "book/device.h"
#include "comm/payload.h"
#include "forecast/gpu_rates.h"

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
  RecordingCommunicator(int rank, forecast::Group group, int ranks_per_node)
      : Communicator(rank, static_cast<int>(group.ranks.size())),
        ranks_(group.ranks),
        ranks_per_node_(ranks_per_node),
        on_host_(group.on_host),
        grid_(forecast::grid_of(group, ranks_per_node)),
        group_(books().add_group(std::move(group))) {}

  Pending all_gather(void*, std::size_t count, DType type, std::string_view label) override {
    return issue(OperationKind::kAllGather, count, type, label);
  }
  Pending reduce_scatter(void*, DType in_type, float*, std::size_t count, float, bool accumulate,
                         std::string_view label) override {
    if (size_of(in_type) == 2) {
      keep_scratch(grid_.scratch_bytes(count));
    } else if (accumulate) {
      keep_scratch(count * size_of(in_type));
    }
    return issue(OperationKind::kReduceScatter, count, in_type, label);
  }
  Pending all_reduce(void*, std::size_t count, DType type, ReduceOp, std::string_view label) override {
    return issue(OperationKind::kAllReduce, count, type, label);
  }
  std::vector<Blob> gather_blobs(const Blob& mine, std::string_view) override {
    return std::vector<Blob>(static_cast<std::size_t>(size()), mine);
  }
  void barrier(std::string_view) override {}
  std::unique_ptr<Communicator> split(const ColorOf& color_of) override {
    forecast::Group group{{}, on_host_};
    int place = 0;
    for (const int member : members(color_of)) {
      if (member == rank()) place = static_cast<int>(group.ranks.size());
      group.ranks.push_back(ranks_[static_cast<std::size_t>(member)]);
    }
    return std::make_unique<RecordingCommunicator>(place, std::move(group), ranks_per_node_);
  }
  std::uint64_t sent_bytes() const override { return 0; }  // the trace has each message's
  std::vector<std::string> recent() const override { return {}; }

 private:
  /// A communicator of GPUs keeps memory through which two-byte gradients are exchanged
  /// (nccl/two_byte_sum.cpp) and fp32 sums are added to earlier ones.
  void keep_scratch(std::size_t bytes) {
    if (on_host_ || bytes <= scratch_bytes_) return;
    scratch_.clear();
    scratch_ = c10::GetAllocator(recording_device().type())->allocate(bytes);
    scratch_bytes_ = bytes;
  }

  Pending issue(OperationKind kind, std::size_t count, DType type, std::string_view label) {
    const std::uint64_t sent = on_host_ ? payload_bytes(kind, count, type, rank(), size())
                                        : gpu_payload_bytes(kind, count, type, rank(), grid_);
    const forecast::Message message{
        .kind = kind, .type = type, .count = count, .sent_bytes = static_cast<double>(sent), .group = group_};
    return Pending(std::make_shared<WaitedFor>(books().issue(message, label)));
  }

  std::vector<int> ranks_;  ///< numbers in the job
  int ranks_per_node_;
  bool on_host_;
  NodeGrid grid_;
  at::DataPtr scratch_;
  std::size_t scratch_bytes_ = 0;
  std::uint16_t group_;
};

}  // namespace

std::unique_ptr<Communicator> make_recording_communicator(int rank, int size, bool on_host,
                                                          int ranks_per_node) {
  forecast::Group all{std::vector<int>(static_cast<std::size_t>(size)), on_host};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  return std::make_unique<RecordingCommunicator>(rank, std::move(all), ranks_per_node);
}

}  // namespace echelon::book
