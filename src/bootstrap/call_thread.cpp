#include "bootstrap/call_thread.h"

#include <chrono>
#include <condition_variable>
#include <system_error>
#include <thread>
#include <utility>

#include "base/caught.h"
#include "base/error.h"
#include "base/mutex.h"

namespace echelon {

/// The thread may outlive the object.
struct CallThread::Shared {
  Mutex mutex;
  std::condition_variable changed;
  std::function<int()> next ECHELON_GUARDED_BY(mutex);  ///< the call to make
  bool busy ECHELON_GUARDED_BY(mutex) = false;          ///< with a call
  std::optional<int> result ECHELON_GUARDED_BY(mutex);
  bool over ECHELON_GUARDED_BY(mutex) = false;

  void serve();
};

void CallThread::Shared::serve() {
  Lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this]() ECHELON_REQUIRES(mutex) { return over || next; });
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
  } catch (const std::system_error&) {
    throw Error(Code::kEnvironment, caught());
  }
}

CallThread::~CallThread() {
  const Lock lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

std::optional<int> CallThread::call_within(double seconds, std::function<int()> call) {
  Lock lock(shared_->mutex);
  if (shared_->busy) return std::nullopt;  // an earlier call still hangs
  shared_->busy = true;
  shared_->result.reset();
  shared_->next = std::move(call);
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                            [this]()
                                ECHELON_REQUIRES(shared_->mutex) { return shared_->result.has_value(); });
  return shared_->result;
}

}  // namespace echelon
