#pragma once
#include <mutex>

/// Attributes of clang's thread safety analysis, which finds members that are used without their mutex
/// (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html); GCC ignores them.
#ifdef __clang__
#define ECHELON_LOCKING(attribute) __attribute__((attribute))
#else
#define ECHELON_LOCKING(attribute)
#endif
/// Behind a member: only the holder of the mutex touches it.
#define ECHELON_GUARDED_BY(mutex) ECHELON_LOCKING(guarded_by(mutex))
/// Behind a function, or the parameters of a lambda that waits: only the holder of the mutex calls it.
#define ECHELON_REQUIRES(mutex) ECHELON_LOCKING(requires_capability(mutex))

namespace echelon {

/// A std::mutex that the analysis knows.
class ECHELON_LOCKING(capability("mutex")) Mutex : public std::mutex {};

/// Holds a Mutex to the end of the scope. A std::condition_variable waits with it.
class ECHELON_LOCKING(scoped_lockable) Lock : public std::unique_lock<std::mutex> {
 public:
  explicit Lock(Mutex& mutex) ECHELON_LOCKING(acquire_capability(mutex)) : unique_lock(mutex) {}
  ~Lock() ECHELON_LOCKING(release_capability()) = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() ECHELON_LOCKING(acquire_capability()) { unique_lock::lock(); }
  void unlock() ECHELON_LOCKING(release_capability()) { unique_lock::unlock(); }
};

}  // namespace echelon
