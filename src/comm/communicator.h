#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "bootstrap/job.h"

namespace echelon {

enum class ReduceOp : std::uint8_t { kSum, kMax, kMin };

/// Completion of one asynchronous collective. Cheap to copy. A default-constructed one is complete.
/// wait() is called by one thread at a time; on the CPU it blocks the caller, on a GPU it makes the caller's
/// current stream wait and returns at once. Rethrows the operation's Error (kPeer: timed out, mismatched,
/// peer died).
class Pending {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
  };
  Pending() = default;
  explicit Pending(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void wait() {
    if (state_) state_->wait();
    state_.reset();
  }

 private:
  std::shared_ptr<State> state_;
};

/// Collectives of one group of ranks. All ranks of a group issue the same operations in the same order;
/// operations of one communicator run in issue order, on a separate thread (CPU) or stream (GPU). The caller
/// owns the buffers and must not touch them until it has waited for the Pending. `label` names the buffer in
/// errors and in the ring of recent operations; it is part of the order check, so ranks that issue different
/// operations get an Error(kPeer) that names both instead of a hang. Thread rule: one issuing thread.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Gathers in place. `buffer`: size() * count elements; the caller has filled its own slot [rank*count,
  /// (rank+1)*count).
  [[nodiscard]] virtual Pending all_gather(void* buffer, std::size_t count, DType type,
                                           std::string_view label) = 0;

  /// output[i] = scale * sum over ranks r of input_r[rank*count + i], summed in rank order 0, 1, ... in fp32.
  /// `input`: size() * count elements of `in_type` (fp32, bf16 or fp16), `output`: count fp32 elements. With
  /// `accumulate` the result is added to `output`. Bytes on the wire are those of `in_type`; `input` may be
  /// used as scratch.
  [[nodiscard]] virtual Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                               float scale, bool accumulate, std::string_view label) = 0;

  /// Reduces in place; `type` is fp32, fp64 or int64. Every rank gets the same bits.
  [[nodiscard]] virtual Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                           std::string_view label) = 0;

  /// Host-side, blocking: small blobs of any size from every rank to every rank, indexed by rank.
  [[nodiscard]] virtual std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) = 0;

  virtual void barrier(std::string_view label) = 0;

  /// The color of a rank of this group, the same on every rank that asks.
  using ColorOf = std::function<int(int rank)>;
  /// Ranks of the same color form a new group, ordered by rank. Collective over this group.
  [[nodiscard]] virtual std::unique_ptr<Communicator> split(const ColorOf& color_of) = 0;

  /// Bytes of data that this rank has sent in collectives of this group and of those split from it or beside
  /// it. CPU ranks count them where they are sent, also for buffers on devices that go by way of the host.
  /// Ranks over NCCL add up the gpu_payload_bytes() of what was issued, because NCCL does not count. Blobs
  /// and announcements are left out.
  [[nodiscard]] virtual std::uint64_t sent_bytes() const = 0;

  /// Throws Error(kPeer) if the network has failed. Operations on a device end then, and what they left is no
  /// result: to be called after the host has waited for the device, before what it found there is used.
  virtual void check_failure() const {}

  /// A hash of all operations of this communicator and of those split from it or beside it. It is equal on
  /// ranks that have issued the same operations. It is 0 where every operation is compared before it runs.
  /// Comparing it from time to time finds differences that the network does not report.
  [[nodiscard]] virtual std::uint32_t digest() const { return 0; }

  /// Seconds for which callers' streams were blocked by wait() for operations of this communicator and of
  /// those split from it or beside it, counting waits that have ended. 0 on the CPU, where wait() blocks the
  /// caller.
  [[nodiscard]] virtual double stream_wait_s() const { return 0; }
  /// The part of stream_wait_s() that all-gathers caused.
  [[nodiscard]] virtual double stream_gather_wait_s() const { return 0; }

  /// The last operations (newest last): "#41 all-gather layers.3 393216 x bf16, issued 12.031 s, done 12.034
  /// s".
  [[nodiscard]] virtual std::vector<std::string> recent() const = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

  /// The ranks of this rank's color, ascending.
  [[nodiscard]] std::vector<int> members(const ColorOf& color_of) const {
    std::vector<int> ranks;
    for (int other = 0; other < size(); ++other) {
      if (color_of(other) == color_of(rank())) ranks.push_back(other);
    }
    return ranks;
  }

 private:
  int rank_;
  int size_;
};

}  // namespace echelon
