#include "bootstrap/call_thread.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/str.h"

namespace echelon {

/// The thread may outlive the object.
struct CallThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<int()> next;  ///< the call to make
  bool busy = false;          ///< with a call
  std::optional<int> result;
  bool over = false;

  void serve();
};

void CallThread::Shared::serve() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return over || next; });
    if (over) return;
    auto call = std::exchange(next, nullptr);
    lock.unlock();
    const int value = call();
    call = nullptr;  // outside the lock: it may own the last reference to the object that owns this thread
    lock.lock();
    result = value;
    busy = false;
    changed.notify_all();
  }
}

CallThread::CallThread() : shared_(std::make_shared<Shared>()) {
  try {
    std::thread([shared = shared_] { shared->serve(); }).detach();
  } catch (const std::system_error& error) {
    throw Error(Code::kEnvironment, str("cannot start a thread: ", error.code().message(),
                                        "; raise the limit of processes (ulimit -u) or of memory"));
  }
}

CallThread::~CallThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

std::optional<int> CallThread::call_within(double seconds, std::function<int()> call) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->busy) return std::nullopt;  // an earlier call still hangs
  shared_->busy = true;
  shared_->result.reset();
  shared_->next = std::move(call);
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                            [this] { return shared_->result.has_value(); });
  return shared_->result;
}

}  // namespace echelon
