#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/str.h"

namespace echelon::test {

/// Stops all threads of this process for `seconds`, as a job that is suspended.
inline void suspend(int seconds) {
  ASSERT_EQ(std::system(str("(sleep ", seconds, "; kill -CONT ", getpid(), ") >&- 2>&- &").c_str()), 0);
  kill(getpid(), SIGSTOP);
}

}  // namespace echelon::test
