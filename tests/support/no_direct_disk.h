#pragma once
#include <fcntl.h>

#include "support/watched_disk.h"

namespace echelon::test {

/// A file system that does not know O_DIRECT, or finds that out at the first transfer.
struct NoDirectDisk : WatchedDisk {
  explicit NoDirectDisk(bool at_open)
      : WatchedDisk([this, at_open](const DiskRequest& request, const auto& make) {
          const bool moves = request.call == DiskCall::kRead || request.call == DiskCall::kWrite;
          const int flags = moves ? ::fcntl(request.fd, F_GETFL) : request.flags;
          if ((flags & O_DIRECT) == 0 || (!moves && !at_open)) return make();
          ++refusals;
          return ssize_t{failed(EINVAL)};
        }) {}
  int refusals = 0;
};

}  // namespace echelon::test
