#pragma once
#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/not_copied.h"
#include "comm/history.h"
#include "comm/nccl/cuda_resources.h"
#include "comm/nccl/stream_waits.h"
#include "comm/peer_failure.h"

namespace echelon {

/// The state that several NCCL communicators of a process share.
struct NcclShared {
  int device = 0;
  double timeout_s = 300;
  std::shared_ptr<CudaStream> stream;     ///< operations of all groups on it run in the order of their issue
  std::shared_ptr<History> history;       ///< of the ranks' communicator, which numbers operations
  std::shared_ptr<Activity> activity;     ///< records every operation of every group
  std::shared_ptr<PeerFailure> failure;   ///< a failure of one group ends all
  std::shared_ptr<CudaPinned> window;     ///< for blobs and barriers; one operation at a time
  std::shared_ptr<StreamWaits> waits;     ///< of the callers' streams for operations on that stream
  std::shared_ptr<std::uint64_t> digest;  ///< of all operations of all groups, kept by the issuing thread
  std::shared_ptr<std::uint64_t> sent;    ///< Communicator::sent_bytes(), likewise
};

/// A hash of operations, with one more added to it (Communicator::digest()).
[[nodiscard]] std::uint64_t mix(std::uint64_t hash, const Operation& operation);

/// One NCCL communicator on a stream, and a thread that watches the operations under way and aborts NCCL when
/// one overstays the deadline or another group has failed. One issuing thread.
class NcclGroup : NotCopied {
 public:
  using Start = std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>;

  /// A new group: `start` calls ncclCommInitRankConfig with a non-blocking configuration. Throws
  /// Error(kEnvironment) where it fails or takes more than the timeout, Error(kPeer) at a failure.
  NcclGroup(const std::string& name, NcclShared shared, const Start& start);
  /// The ranks of `parent` that give the same `color` (>= 0), ordered by `key`. Throws likewise; the parent
  /// is unusable then.
  NcclGroup(const std::string& name, NcclShared shared, NcclGroup& parent, int color, int key);
  /// Waits for running operations, at most until the deadline.
  ~NcclGroup();

  /// Queues an operation on the stream, after what the stream `*after` has queued so far if one is given:
  /// `queue` makes the NCCL calls and kernel launches, and must not wait for the device. Returns the event of
  /// its end. Throws Error(kPeer) after a failure.
  [[nodiscard]] std::shared_ptr<CudaEvent> issue(const Operation& operation,
                                                 std::optional<cudaStream_t> after,
                                                 const std::function<void(ncclComm_t)>& queue);
  /// Blocks until the event has passed. Throws Error(kPeer) at a failure.
  void wait_on_host(const CudaEvent& event);

  /// Throws Error(kPeer) for anything but success; NCCL's "in progress" is waited for. Within issue().
  void check(ncclResult_t result, const char* doing);

  [[nodiscard]] cudaStream_t stream() const { return shared_.stream->get(); }
  [[nodiscard]] const std::string& name() const { return handle_->name; }
  [[nodiscard]] const NcclShared& shared() const { return shared_; }

 private:
  struct Watched {
    Operation operation;
    std::shared_ptr<CudaEvent> end;
  };
  /// NCCL keeps pointers to these, so they must not move.
  struct Handle {
    std::string name;
    ncclComm_t comm = nullptr;
  };
  void settle(const char* doing);
  [[nodiscard]] bool passed(const CudaEvent& event);
  /// Waits until the communicator `name`, which NCCL has begun to create, exists.
  void connect(ncclResult_t begun, const std::string& name);
  [[nodiscard]] std::shared_ptr<Handle> split_off(const std::string& name, int color, int key);
  void end_now();
  void begin_watch();
  void watch();
  void ask(const Operation& stuck);
  void abort();

  const NcclShared shared_;
  Mutex calls_;  ///< held around NCCL calls, which are not thread-safe per communicator
  std::shared_ptr<Handle> handle_;
  /// A child whose split has not completed: an NCCL thread writes to it while this communicator lives.
  std::shared_ptr<Handle> joining_;

  Mutex mutex_;
  std::condition_variable wake_;
  std::deque<Watched> under_way_ ECHELON_GUARDED_BY(mutex_);
  bool aborted_ ECHELON_GUARDED_BY(mutex_) = false;
  bool ending_ ECHELON_GUARDED_BY(mutex_) = false;
  std::thread watchdog_;
};

}  // namespace echelon
