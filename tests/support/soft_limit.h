#pragma once
#include <sys/resource.h>

#include <algorithm>

#include "base/not_copied.h"

namespace echelon::test {

/// Another soft limit of this process, RLIMIT_..., as long as it lives.
class SoftLimit : NotCopied {
 public:
  using What = decltype(RLIMIT_AS);

  SoftLimit(What what, rlim_t limit) : what_(what) {
    ::getrlimit(what_, &before_);
    const rlimit now{.rlim_cur = std::min(limit, before_.rlim_max), .rlim_max = before_.rlim_max};
    ::setrlimit(what_, &now);
  }
  ~SoftLimit() { ::setrlimit(what_, &before_); }

 private:
  What what_;
  rlimit before_{};
};

}  // namespace echelon::test
