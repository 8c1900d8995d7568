#include "comm/nccl/two_byte_sum.h"

#include "comm/nccl/reduce_kernels.h"

namespace echelon {
namespace {

/// Sends and receives that NCCL carries out together, so that none waits for its turn. The first error
/// counts.
class Messages {
 public:
  Messages(ncclComm_t comm, cudaStream_t stream) : comm_(comm), stream_(stream), result_(ncclGroupStart()) {}

  void send(const void* from, std::size_t count, ncclDataType_t type, int to) {
    if (!failed()) result_ = ncclSend(from, count, type, to, comm_, stream_);
  }
  void receive(void* to, std::size_t count, ncclDataType_t type, int from) {
    if (!failed()) result_ = ncclRecv(to, count, type, from, comm_, stream_);
  }
  [[nodiscard]] ncclResult_t end() {
    const ncclResult_t ended = ncclGroupEnd();
    return failed() ? result_ : ended;
  }

 private:
  [[nodiscard]] bool failed() const { return result_ != ncclSuccess && result_ != ncclInProgress; }

  ncclComm_t comm_;
  cudaStream_t stream_;
  ncclResult_t result_;
};

}  // namespace

void TwoByteSum::exchange_within(ncclComm_t comm, const Job& job, std::byte* arrived) const {
  if (grid_.local == 1) return;
  const std::size_t piece = job.count * size_of(job.type);
  const ncclDataType_t type = job.type == DType::kBF16 ? ncclBfloat16 : ncclFloat16;
  const auto part = [&](int node, int place) {
    return static_cast<std::size_t>(node * grid_.local + place) * piece;
  };
  Messages messages(comm, lane_.stream());
  for (int step = 1; step < grid_.local; ++step) {
    const int to = (place() + step) % grid_.local;
    const int from = (place() - step + grid_.local) % grid_.local;
    const int first = node() * grid_.local;
    // Messages between two ranks are matched in the order of the nodes.
    for (int of = 0; of < grid_.nodes; ++of) {
      messages.send(job.input + part(of, to), job.count, type, first + to);
      messages.receive(arrived + part(of, from), job.count, type, first + from);
    }
  }
  lane_.check(messages.end(), "exchanging the pieces of a node's ranks");
}

void TwoByteSum::exchange_between(ncclComm_t comm, std::size_t count, const float* sums,
                                  float* arrived) const {
  Messages messages(comm, lane_.stream());
  for (int step = 1; step < grid_.nodes; ++step) {
    const int to = (node() + step) % grid_.nodes;
    const int from = (node() - step + grid_.nodes) % grid_.nodes;
    messages.send(sums + static_cast<std::size_t>(to) * count, count, ncclFloat32,
                  to * grid_.local + place());
    messages.receive(arrived + static_cast<std::size_t>(from) * count, count, ncclFloat32,
                     from * grid_.local + place());
  }
  lane_.check(messages.end(), "exchanging the sums of nodes");
}

void TwoByteSum::queue(ncclComm_t comm, const Job& job) {
  const cudaStream_t stream = lane_.stream();
  auto* sums = static_cast<float*>(job.scratch);
  const std::size_t of_nodes = grid_.nodes > 1 ? static_cast<std::size_t>(grid_.nodes) * job.count : 0;
  auto* arrived = reinterpret_cast<std::byte*>(sums + of_nodes);
  exchange_within(comm, job, arrived);
  const Pieces within{.own = job.input + static_cast<std::size_t>(place()) * job.count * size_of(job.type),
                      .arrived = arrived,
                      .count = job.count,
                      .rank = place(),
                      .size = grid_.local,
                      .parts = grid_.nodes};
  if (grid_.nodes == 1) {
    check_cuda(sum_pieces(within, job.type, job.output, job.scale, job.accumulate, stream),
               "summing the ranks' pieces");
    return;
  }
  check_cuda(sum_pieces(within, job.type, sums, 1.0F, false, stream), "summing the pieces of a node's ranks");
  // The pieces are summed by then, so that the sums of other nodes may arrive in their place.
  auto* others = reinterpret_cast<float*>(arrived);
  exchange_between(comm, job.count, sums, others);
  const Pieces between{.own = sums + static_cast<std::size_t>(node()) * job.count,
                       .arrived = others,
                       .count = job.count,
                       .rank = node(),
                       .size = grid_.nodes};
  check_cuda(sum_pieces(between, DType::kF32, job.output, job.scale, job.accumulate, stream),
             "summing the sums of nodes");
}

}  // namespace echelon
