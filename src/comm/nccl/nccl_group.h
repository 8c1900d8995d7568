#pragma once
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/history.h"
#include "comm/nccl/cuda_resources.h"
#include "comm/peer_failure.h"

namespace echelon {

/// What several NCCL communicators of a process have in common.
struct NcclShared {
  int device = 0;
  double timeout_s = 300;
  std::shared_ptr<CudaStream> stream;    ///< operations of all groups on it run in the order of their issue
  std::shared_ptr<History> history;      ///< of the ranks' communicator, which numbers operations
  std::shared_ptr<Activity> activity;    ///< told of every operation of every group
  std::shared_ptr<PeerFailure> failure;  ///< one group's failure ends all
};

/// One NCCL communicator on a stream, and a thread that watches the operations under way and aborts NCCL when
/// one overstays the deadline or another group has failed. One issuing thread.
class NcclGroup {
 public:
  using Start = std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>;

  /// `start` begins ncclCommInitRankConfig or ncclCommSplit with a non-blocking configuration. Throws
  /// Error(kEnvironment) where it fails or takes more than the timeout.
  NcclGroup(std::string name, NcclShared shared, const Start& start);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  /// Lets the operations under way end, at most until the deadline.
  ~NcclGroup();

  /// Queues an operation on the stream behind what `after` has queued so far: `queue` makes the NCCL calls
  /// and kernel launches. Returns the event of its end. Throws Error(kPeer) after a failure.
  [[nodiscard]] std::shared_ptr<CudaEvent> issue(const Operation& operation, cudaStream_t after,
                                                 const std::function<void(ncclComm_t)>& queue);
  /// Blocks until the event has passed. Throws Error(kPeer) at a failure.
  void wait_on_host(const CudaEvent& event);
  /// Throws the Error(kPeer) of the failure, if there was one.
  void check_alive();
  /// Buffers of later operations lie in it: NCCL may then move them without copies of its own. A memory that
  /// NCCL cannot register is used as before.
  void register_buffer(void* memory, std::size_t bytes);
  /// Communicator::forget_buffer().
  void forget_buffer(void* memory);
  /// A new communicator out of this one (ncclCommSplit and the like) begins under the lock against abort.
  [[nodiscard]] ncclResult_t begin(const std::function<ncclResult_t(ncclComm_t)>& call);

  /// Throws Error(kPeer) for anything but success; NCCL's "in progress" is waited for.
  void check(ncclResult_t result, const char* doing);

  [[nodiscard]] cudaStream_t stream() const { return shared_.stream->get(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const NcclShared& shared() const { return shared_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Operation operation;
    std::shared_ptr<CudaEvent> end;
  };
  void settle(const char* doing, double timeout_s);
  void watch();
  void fail(const std::string& text);
  void abort();

  const std::string name_;
  const NcclShared shared_;
  std::mutex calls_;  ///< held around NCCL calls, so that the watchdog's abort meets none half-way
  ncclComm_t comm_ = nullptr;
  std::map<void*, void*> registered_;  ///< memory -> NCCL's handle

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable wake_;
  std::deque<Watched> under_way_;
  bool aborted_ = false;
  bool ending_ = false;
  std::thread watchdog_;
};

}  // namespace echelon
