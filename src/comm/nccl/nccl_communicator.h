#pragma once
#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace echelon {

/// What a GPU communicator must know beside the job.
struct NcclOptions {
  int device = 0;          ///< CUDA device of this rank
  double timeout_s = 300;  ///< longest an operation may stay unfinished after the one before it
  /// The caller's current CUDA stream (cudaStream_t): operations start after what is queued on it, and
  /// Pending::wait() makes it wait. Called on the issuing thread. Must not be empty.
  std::function<void*()> current_stream;
};

/// GPU ranks over NCCL; buffers lie on the device. All ranks of `job` take part; the id travels through
/// Job::exchange. What differs from the CPU ranks:
///  - reduce_scatter widens bf16 to fp32 before it travels, and NCCL chooses the order of the sum: same bits
///  on every
///    run with the same ranks and NCCL version, but not the order 0, 1, ... that CPU ranks keep;
///  - the order check happens in barrier() and gather_blobs(), by a running hash of all operations since the
///  last one,
///    so ranks that disagree get an error there, or at the deadline when NCCL itself hangs on the difference;
///  - after the deadline, or an error of NCCL, a watchdog aborts the communicator: every later operation and
///  wait
///    throws Error(kPeer) with the operation that was stuck.
/// Throws Error(kEnvironment): no such device, NCCL cannot connect the ranks within `timeout_s`.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(Job& job, NcclOptions options);

/// "NCCL 2.28.9".
[[nodiscard]] std::string nccl_version();

}  // namespace echelon
