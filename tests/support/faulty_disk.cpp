#include "support/faulty_disk.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

namespace echelon::test {

int FaultyDisk::calls(DiskCall call, const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(made_.begin(), made_.end(), [&](const Made& made) {
    return made.call == call && made.path.find(path) != std::string::npos;
  }));
}

int FaultyDisk::struck(std::size_t fault) const {
  const std::lock_guard lock(mutex_);
  return plan_.at(fault).struck;
}

void FaultyDisk::release() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  released_changed_.notify_all();
}

const Fault* FaultyDisk::meet(DiskCall call, const std::string& path) {
  const std::lock_guard lock(mutex_);
  made_.push_back({call, path});
  const Fault* found = nullptr;
  for (Planned& planned : plan_) {
    const Fault& fault = planned.fault;
    if (fault.call != call || path.find(fault.path) == std::string::npos) continue;
    ++planned.met;
    const int since = planned.met - fault.nth;
    if (found != nullptr || since < 0 || since >= fault.times || since % fault.every != 0) continue;
    ++planned.struck;
    found = &fault;
  }
  return found;
}

bool FaultyDisk::goes_on(const Fault& fault) {
  switch (fault.does) {
    case Fault::Does::kFail: errno = fault.error; return false;
    case Fault::Does::kPretend: return false;
    case Fault::Does::kShorten: return true;
    case Fault::Does::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.milliseconds));
      return true;
    case Fault::Does::kHang:
      std::unique_lock lock(mutex_);
      released_changed_.wait(lock, [&] { return released_; });
      return true;
  }
  return true;
}

ssize_t FaultyDisk::strike(DiskRequest& request, const std::function<ssize_t()>& make) {
  const Fault* fault = meet(request.call, request.to.empty() ? request.path : request.to);
  if (fault == nullptr) return make();
  const bool moves = request.call == DiskCall::kRead || request.call == DiskCall::kWrite;
  if (goes_on(*fault)) {
    if (fault->does == Fault::Does::kShorten)
      request.size = std::min<std::uint64_t>(request.size, fault->bytes);
    return make();
  }
  if (fault->does != Fault::Does::kPretend) return -1;
  return moves ? static_cast<ssize_t>(request.size) : 0;
}

}  // namespace echelon::test
