#pragma once
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/history.h"
#include "comm/nccl/cuda_resources.h"

namespace echelon {

/// One NCCL communicator with its stream, and a thread that watches the operations under way and aborts NCCL
/// when one overstays the deadline. One issuing thread.
class NcclGroup {
 public:
  using Start = std::function<ncclResult_t(ncclComm_t*, ncclConfig_t*)>;

  /// `start` begins ncclCommInitRankConfig or ncclCommSplit with a non-blocking configuration. Throws
  /// Error(kEnvironment) where it fails or takes more than `timeout_s`.
  NcclGroup(std::string name, int device, double timeout_s, const Start& start);
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
  /// A new communicator out of this one (ncclCommSplit and the like) begins under the lock against abort.
  [[nodiscard]] ncclResult_t begin(const std::function<ncclResult_t(ncclComm_t)>& call);

  /// Throws Error(kPeer) for anything but success; NCCL's "in progress" is waited for.
  void check(ncclResult_t result, const char* doing);

  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] std::vector<std::string> recent() const { return history_.recent(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Operation operation;
    std::shared_ptr<CudaEvent> end;
  };
  void settle(const char* doing, double timeout_s);
  void watch();
  void fail(std::string text);

  const std::string name_;
  const int device_;
  const double timeout_s_;
  CudaStream stream_;
  std::mutex calls_;  ///< held around NCCL calls, so that the watchdog's abort meets none half-way
  ncclComm_t comm_ = nullptr;
  History history_;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable wake_;
  std::deque<Watched> under_way_;
  std::optional<std::string> failure_;
  bool ending_ = false;
  std::thread watchdog_;
};

}  // namespace echelon
