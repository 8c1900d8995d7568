#pragma once
#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/nccl/cuda_resources.h"
#include "comm/process_watch.h"

namespace echelon {

/// The inputs of a GPU communicator besides the job.
struct NcclOptions {
  int device = 0;          ///< CUDA device of this rank
  double timeout_s = 300;  ///< longest an operation may stay unfinished after the one before it
  /// The caller's current CUDA stream (cudaStream_t): operations start after what is queued on it, and
  /// Pending::wait() makes it wait. Called on the issuing thread. Must not be empty.
  std::function<void*()> current_stream;
  ProcessWatch watch;  ///< its failure, once set, aborts all groups
  /// Device memory for received pieces: the pool of the training, so that it is accounted for there.
  CudaMemory memory = driver_memory();
};

/// GPU ranks over NCCL; buffers lie on the device. All ranks of `job` take part; the id travels through
/// Job::exchange. What differs from the CPU ranks:
///  - all-gathers and reductions have an NCCL communicator and a stream each (a lane), so they run side by
///    side. Within a lane, operations of this communicator and of all split from it run in issue order.
///    Buffers are ordered by events: an operation starts after what the issuing stream has queued,
///    Pending::wait() makes the waiting stream wait for it, and the host does not block;
///  - reduce_scatter of bf16 and fp16 sums in fp32, in rank order as CPU ranks do, but where a group spans
///    several nodes with more than two ranks each: there the ranks of a node first, in rank order, and then
///    the nodes (NodeGrid). fp32 reduce_scatter and all_reduce leave the order to NCCL: same bits in every
///    run with the same ranks on the same nodes and the same NCCL version, but only with NVLink switches kept
///    from summing (NCCL_NVLS_ENABLE=0), whose order is not fixed;
///  - the order check happens in barrier() and gather_blobs(), by a running hash of all operations of the
///    communicator, and where the caller compares digest(); ranks that disagree get an error there, or at the
///    deadline when NCCL itself hangs on the difference;
///  - after the deadline, or an error of NCCL, watchdogs abort this communicator and all split from it: every
///    later operation and wait throws Error(kPeer) with the operation that was stuck;
///  - split communicators end with the last of their family. Its destructor waits for the ranks of this node
///  to
///    destroy theirs, without a deadline. So the first one must outlive an error of this rank alone, until
///    that is reported; best it is not destroyed then.
/// Throws Error(kEnvironment): no such device, NCCL cannot connect the ranks within `timeout_s`.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(Job& job, NcclOptions options);

}  // namespace echelon
