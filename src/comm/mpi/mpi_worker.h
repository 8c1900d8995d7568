#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/not_copied.h"
#include "comm/communicator.h"

namespace echelon {

/// The one thread of this process that calls MPI, and its queue of work. It sleeps while the queue is empty.
/// The first task that throws ends all communication: that task and every later one fail with the same error
/// at once, and MPI is not called again, because after a lost peer later messages could not be matched.
class MpiWorker : NotCopied {
 public:
  /// Starts the thread and MPI on it. Throws Error(kEnvironment) where MPI_Init fails or takes over
  /// `timeout_s`.
  explicit MpiWorker(double timeout_s);
  /// Ends the thread after the tasks already queued; does not end MPI.
  ~MpiWorker();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;

  /// Runs `task` on the thread after all tasks submitted before it.
  [[nodiscard]] Pending submit(std::function<void()> task);

  /// MPI_Finalize on the thread, unless communication has failed. Throws Error(kPeer) after `timeout_s`.
  void finish(double timeout_s);

  /// Returns at least `bytes` of scratch memory, kept from one operation to the next. For tasks only.
  [[nodiscard]] std::byte* staging(std::size_t bytes);

 private:
  struct Task;
  class Completion;
  struct Shared;
  std::shared_ptr<Completion> queue(std::function<void()> task);
  void end();

  std::shared_ptr<Shared> shared_;
  std::unique_ptr<std::byte[]> staging_;
  std::size_t staging_bytes_ = 0;
  std::thread thread_;
};

/// "Open MPI v4.1.4", for doctor and messages; "no Open MPI" where none can be loaded. Callable from any
/// thread, without a worker too.
[[nodiscard]] std::string mpi_library_version();
/// Throws Error(kEnvironment) that says what to install where no MPI can be loaded.
void require_mpi();
/// True if this MPI works only if PMIx looks uninitialized when it starts (HiddenPmix). Callable before MPI
/// is started.
[[nodiscard]] bool mpi_connects_first();
/// Returns the thread level that the running MPI grants, such as "MPI_THREAD_FUNNELED", or "not started". May
/// be called from any thread.
[[nodiscard]] std::string mpi_thread_level();

}  // namespace echelon
