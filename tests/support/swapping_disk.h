#pragma once
#include <atomic>
#include <functional>

#include "support/watched_disk.h"

namespace echelon::test {

/// A disk on which somebody else does something before the `nth` call that names a path. Thread-safe.
class SwappingDisk : public WatchedDisk {
 public:
  SwappingDisk(int nth, const std::function<void()>& swap)
      : WatchedDisk([this, swap](const DiskRequest& request, const auto& make) {
          if (request.fd < 0 && --left_ == 0) swap();
          return make();
        }),
        left_(nth) {}

  [[nodiscard]] bool has_swapped() const { return left_ <= 0; }

 private:
  std::atomic<int> left_;
};

}  // namespace echelon::test
