#include "comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/str.h"
#include "comm/exchange.h"
#include "comm/nccl/nccl_group.h"
#include "comm/nccl/reduce_kernels.h"
#include "comm/nccl/two_byte_sum.h"
#include "comm/payload.h"

namespace echelon {
namespace {

ncclDataType_t nccl_type(DType type, std::string_view label) {
  switch (type) {
    case DType::kF32: return ncclFloat32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF16: return ncclFloat16;
    case DType::kF64: return ncclFloat64;
    case DType::kI32: return ncclInt32;
    case DType::kI64: return ncclInt64;
    case DType::kU8: return ncclUint8;
  }
  throw Error::internal("'", label, "': unknown element type");
}

ncclRedOp_t nccl_op(ReduceOp op) {
  return op == ReduceOp::kSum ? ncclSum : op == ReduceOp::kMax ? ncclMax : ncclMin;
}

/// The first message of every rank at barriers and for blobs: a hash of its operations, and its blob's size.
struct Roll {
  std::uint64_t operations_hash;
  std::uint64_t blob_bytes;
};

/// Blobs are small. A larger size must be damaged, and no memory is taken for it.
constexpr std::size_t kLargestBlob = std::size_t{256} << 20;

/// Size of the pinned window; at least every rank's Roll.
std::size_t window_bytes(int ranks) {
  constexpr std::size_t kWindow = 1 << 20;
  return std::max(kWindow, static_cast<std::size_t>(ranks) * sizeof(Roll));
}

/// Two NCCL communicators over the same ranks, each with a stream: an all-gather of weights must not queue
/// behind an earlier reduction of gradients. Blobs and barriers use the lane of the reductions.
struct Lanes {
  /// On the reductions' stream; destroyed after the groups that use it. It grows before issue(): an allocator
  /// that waits there for the device, where a kernel waits for a dead rank, would keep the watchdog from
  /// ending that kernel.
  std::shared_ptr<CudaScratch> scratch;
  std::shared_ptr<NcclGroup> gather;
  std::shared_ptr<NcclGroup> reduce;
};

/// Holds the lanes of a communicator and of all that were split from it, until the last of these ends. An
/// error of this rank alone destroys the split ones on its way: ncclCommDestroy would then wait for ranks of
/// the node, which wait for this one.
using Family = std::deque<Lanes>;

class NcclCommunicator final : public Communicator {
 public:
  /// `node_of`: of each rank of the group.
  NcclCommunicator(int rank, std::vector<int> node_of, Lanes lanes, std::shared_ptr<Family> family,
                   std::function<void*()> current_stream, CudaMemory memory)
      : Communicator(rank, static_cast<int>(node_of.size())),
        node_of_(std::move(node_of)),
        memory_(std::move(memory)),
        lanes_(std::move(lanes)),
        family_(std::move(family)),
        grid_(NodeGrid::of(node_of_)),
        two_byte_sum_(*lanes_.reduce, grid_, rank),
        current_stream_(std::move(current_stream)) {}

  [[nodiscard]] Pending all_gather(void* buffer, std::size_t count, DType type,
                                   std::string_view label) override {
    const std::size_t offset = static_cast<std::size_t>(rank()) * count * size_of(type);
    NcclGroup& lane = *lanes_.gather;
    return issue(lane, make_operation(OperationKind::kAllGather, count, type, label), [&](ncclComm_t comm) {
      lane.check(ncclAllGather(static_cast<std::byte*>(buffer) + offset, buffer, count,
                               nccl_type(type, label), comm, lane.stream()),
                 "ncclAllGather");
    });
  }

  [[nodiscard]] Pending reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                       float scale, bool accumulate, std::string_view label) override {
    const Operation operation = make_operation(OperationKind::kReduceScatter, count, in_type, label);
    const bool wide = in_type == DType::kF32;
    const std::size_t wide_bytes = accumulate ? count * sizeof(float) : 0;
    void* scratch = lanes_.scratch->get(wide ? wide_bytes : grid_.scratch_bytes(count));
    return issue(*lanes_.reduce, operation, [&](ncclComm_t comm) {
      if (wide) {
        float* sum = accumulate ? static_cast<float*>(scratch) : output;
        queue_wide_sum(comm, static_cast<const float*>(input), sum, output, count, scale, accumulate);
      } else {
        two_byte_sum_.queue(
            comm, {static_cast<const std::byte*>(input), in_type, count, output, scale, accumulate, scratch});
      }
    });
  }

  [[nodiscard]] Pending all_reduce(void* data, std::size_t count, DType type, ReduceOp op,
                                   std::string_view label) override {
    Operation operation = make_operation(OperationKind::kAllReduce, count, type, label);
    operation.op = op;
    return issue(*lanes_.reduce, operation, [&](ncclComm_t comm) {
      lanes_.reduce->check(ncclAllReduce(data, data, count, nccl_type(type, label), nccl_op(op), comm,
                                         lanes_.reduce->stream()),
                           "ncclAllReduce");
    });
  }

  [[nodiscard]] std::vector<Blob> gather_blobs(const Blob& mine, std::string_view label) override {
    const Operation operation = make_operation(OperationKind::kGatherBlobs, 0, DType::kU8, label);
    const std::vector<Roll> rolls = call_roll(operation, mine.size());
    std::size_t slot = 0;
    for (const Roll& roll : rolls) slot = std::max<std::size_t>(slot, roll.blob_bytes);
    if (slot > kLargestBlob)
      throw Error(Code::kPeer, describe(operation), ": a rank announces ", human_bytes(slot),
                  "; expected at most ", human_bytes(kLargestBlob));
    const Blob all = gather_host(operation, mine, slot);
    std::vector<Blob> blobs;
    for (std::size_t rank = 0; rank < rolls.size(); ++rank) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank * slot);
      blobs.emplace_back(first, first + static_cast<std::ptrdiff_t>(rolls[rank].blob_bytes));
    }
    return blobs;
  }

  void barrier(std::string_view label) override {
    call_roll(make_operation(OperationKind::kBarrier, 0, DType::kU8, label), 0);
  }

  [[nodiscard]] std::unique_ptr<Communicator> split(const ColorOf& color_of) override {
    const std::vector<int> group = members(color_of);
    const auto own = std::find(group.begin(), group.end(), rank());
    const int new_rank = static_cast<int>(own - group.begin());
    // NCCL requires non-negative colors, ours may be any; the lowest member identifies the group, too.
    const int nccl_color = group.front();
    const std::string name = str(lanes_.reduce->name(), "/", splits_++, ".", color_of(rank()));
    // Split groups share a stream per lane: a buffer that one fills and another sends on needs no event.
    NcclShared shared = lanes_.reduce->shared();
    shared.history = std::make_shared<History>(shared.activity);
    Lanes& lanes = family_->emplace_back();
    lanes.scratch = std::make_shared<CudaScratch>(shared.stream, memory_);
    lanes.reduce = std::make_shared<NcclGroup>(name, shared, *lanes_.reduce, nccl_color, new_rank);
    shared.stream = lanes_.gather->shared().stream;
    shared.waits = lanes_.gather->shared().waits;
    lanes.gather =
        std::make_shared<NcclGroup>(name + " (gather)", shared, *lanes_.gather, nccl_color, new_rank);
    std::vector<int> node_of =
        mapped(group, [this](int member) { return node_of_[static_cast<std::size_t>(member)]; });
    return std::make_unique<NcclCommunicator>(new_rank, std::move(node_of), lanes, family_, current_stream_,
                                              memory_);
  }

  void check_failure() const override { lanes_.reduce->shared().failure->check(); }

  [[nodiscard]] std::uint32_t digest() const override {
    const std::uint64_t digest = *lanes_.reduce->shared().digest;
    return static_cast<std::uint32_t>(digest ^ (digest >> 32));
  }

  [[nodiscard]] std::uint64_t sent_bytes() const override { return *lanes_.reduce->shared().sent; }

  [[nodiscard]] double stream_wait_s() const override {
    return lanes_.reduce->shared().waits->seconds() + stream_gather_wait_s();
  }
  [[nodiscard]] double stream_gather_wait_s() const override {
    return lanes_.gather->shared().waits->seconds();
  }

  [[nodiscard]] std::vector<std::string> recent() const override {
    return lanes_.reduce->shared().history->recent();
  }

 private:
  class State final : public Pending::State {
   public:
    State(const NcclShared& shared, std::shared_ptr<CudaEvent> end, std::function<void*()> current_stream)
        : failure_(shared.failure),
          waits_(shared.waits),
          end_(std::move(end)),
          current_stream_(std::move(current_stream)) {}
    void wait() override {
      failure_->check();
      waits_->wait(static_cast<cudaStream_t>(current_stream_()), *end_);
    }

   private:
    std::shared_ptr<PeerFailure> failure_;
    std::shared_ptr<StreamWaits> waits_;
    std::shared_ptr<CudaEvent> end_;
    std::function<void*()> current_stream_;
  };

  /// Numbers the operation; adds it to the hashes of this group and of all groups (digest()).
  void number(Operation& operation) {
    operation.sequence = next_sequence_++;
    roll_hash_ = mix(roll_hash_, operation);
    std::uint64_t& digest = *lanes_.reduce->shared().digest;
    digest = mix(digest, operation);
  }

  [[nodiscard]] Pending issue(NcclGroup& lane, Operation operation,
                              const std::function<void(ncclComm_t)>& queue) {
    number(operation);
    *lane.shared().sent += gpu_payload_bytes(operation.kind, operation.count, operation.type, rank(), grid_);
    auto end = lane.issue(operation, static_cast<cudaStream_t>(current_stream_()), queue);
    return Pending(std::make_shared<State>(lane.shared(), std::move(end), current_stream_));
  }

  /// fp32: NCCL sums, in an order that it chooses.
  void queue_wide_sum(ncclComm_t comm, const float* input, float* sum, float* output, std::size_t count,
                      float scale, bool accumulate) {
    const cudaStream_t stream = lanes_.reduce->stream();
    lanes_.reduce->check(ncclReduceScatter(input, sum, count, ncclFloat32, ncclSum, comm, stream),
                         "ncclReduceScatter");
    if (accumulate || scale != 1.0F)
      check_cuda(scale_into(sum, output, count, scale, accumulate, stream), "scaling the sum");
  }

  /// All ranks' `mine`, padded to `slot` bytes each, on the host.
  [[nodiscard]] Blob gather_host(const Operation& operation, const Blob& mine, std::size_t slot) {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t most = window_bytes(size()) / ranks;
    Blob all(slot * ranks);
    for (std::size_t from = 0; from < slot; from += most) {
      const std::size_t bytes = std::min(most, slot - from);
      const std::byte* window = gather_piece(operation, mine, from, bytes);
      for (std::size_t rank = 0; rank < ranks; ++rank)
        std::memcpy(all.data() + rank * slot + from, window + rank * bytes, bytes);
    }
    return all;
  }

  /// `bytes` of every rank's blob, concatenated; valid until the next call.
  const std::byte* gather_piece(Operation operation, const Blob& mine, std::size_t from, std::size_t bytes) {
    number(operation);
    std::byte* window = lanes_.reduce->shared().window->data();
    const std::size_t own = static_cast<std::size_t>(rank()) * bytes;
    if (from < mine.size())
      std::memcpy(window + own, mine.data() + from, std::min(bytes, mine.size() - from));
    const std::size_t all = bytes * static_cast<std::size_t>(size());
    const cudaStream_t stream = lanes_.reduce->stream();
    auto* device = static_cast<std::byte*>(lanes_.scratch->get(all));
    const auto end = lanes_.reduce->issue(operation, std::nullopt, [&](ncclComm_t comm) {
      check_cuda(cudaMemcpyAsync(device + own, window + own, bytes, cudaMemcpyHostToDevice, stream),
                 "copying to the device");
      lanes_.reduce->check(ncclAllGather(device + own, device, bytes, ncclUint8, comm, stream),
                           "ncclAllGather");
      check_cuda(cudaMemcpyAsync(window, device, all, cudaMemcpyDeviceToHost, stream), "copying to the host");
    });
    lanes_.reduce->wait_on_host(*end);
    return window;
  }

  /// Every rank's view of the operations so far. Throws Error(kPeer) where they differ.
  std::vector<Roll> call_roll(const Operation& operation, std::size_t blob_bytes) {
    const Roll own{.operations_hash = mix(roll_hash_, operation), .blob_bytes = blob_bytes};
    const Blob all = gather_host(operation, packed(own), sizeof(Roll));
    std::vector<Roll> rolls(static_cast<std::size_t>(size()));
    std::memcpy(rolls.data(), all.data(), all.size());
    for (int other = 0; other < size(); ++other) {
      if (rolls[static_cast<std::size_t>(other)].operations_hash == own.operations_hash) continue;
      const auto last = recent();
      throw Error(Code::kPeer, "rank ", other, " of group '", lanes_.reduce->name(),
                  "' has issued different operations than rank ", rank(), " before ", describe(operation),
                  "; this rank's last: ", last.size() < 2 ? "none" : last[last.size() - 2]);
    }
    return rolls;
  }

  std::vector<int> node_of_;
  CudaMemory memory_;
  Lanes lanes_;
  std::shared_ptr<Family> family_;  ///< shared with those split from it
  NodeGrid grid_;
  TwoByteSum two_byte_sum_;
  std::function<void*()> current_stream_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t roll_hash_ = 0;
  int splits_ = 0;
};

ncclUniqueId agree_on_id(Job& job) {
  Blob mine;
  if (job.info().rank == 0) {
    ncclUniqueId id{};
    const ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess) {
      throw Error(Code::kEnvironment, "cannot get an id from NCCL: ", ncclGetErrorString(result), "; ",
                  ncclGetLastError(nullptr));
    }
    mine = packed(id);
  }
  return unpacked<ncclUniqueId>(job.exchange("NCCL id", mine).at(0));
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(Job& job, NcclOptions options) {
  const JobInfo& info = job.info();
  check_cuda(cudaSetDevice(options.device),
             str("using CUDA device ", options.device, " on ", info.host).c_str());
  const ncclUniqueId id = agree_on_id(job);
  NcclShared shared{.device = options.device,
                    .timeout_s = options.timeout_s,
                    .stream = std::make_shared<CudaStream>(),
                    .history = std::make_shared<History>(options.watch.activity),
                    .activity = options.watch.activity,
                    .failure = options.watch.failure,
                    .window = std::make_shared<CudaPinned>(window_bytes(info.size)),
                    .waits = std::make_shared<StreamWaits>(),
                    .digest = std::make_shared<std::uint64_t>(0),
                    .sent = std::make_shared<std::uint64_t>(0)};
  Lanes lanes;
  lanes.scratch = std::make_shared<CudaScratch>(shared.stream, options.memory);
  lanes.reduce = std::make_shared<NcclGroup>("world", shared, [&](ncclComm_t* comm, ncclConfig_t* config) {
    return ncclCommInitRankConfig(comm, info.size, id, info.rank, config);
  });
  shared.stream = std::make_shared<CudaStream>();
  shared.waits = std::make_shared<StreamWaits>();
  lanes.gather = std::make_shared<NcclGroup>("world (gather)", shared, *lanes.reduce, 0, info.rank);
  std::vector<int> node_of;
  for (const std::string& host : info.hosts) {
    // The first rank of a host stands for it.
    node_of.push_back(
        static_cast<int>(std::find(info.hosts.begin(), info.hosts.end(), host) - info.hosts.begin()));
  }
  return std::make_unique<NcclCommunicator>(info.rank, std::move(node_of), std::move(lanes),
                                            std::make_shared<Family>(), std::move(options.current_stream),
                                            std::move(options.memory));
}

}  // namespace echelon
