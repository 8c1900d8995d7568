#pragma once
#include <gtest/gtest.h>

#include <memory>

#include "bootstrap/job.h"

namespace echelon::testing {

/// The job of this rank, for tests of several ranks. Set by run_ranks().
struct Ranks {
  std::unique_ptr<Job> job;
  [[nodiscard]] const JobInfo& info() const { return job->info(); }
};
inline Ranks& ranks() {
  static Ranks value;
  return value;
}

/// The main() of such a test: joins the job, runs all tests on every rank, and reports failures of any rank.
/// `leave` runs before the job ends (finish_mpi).
inline int run_ranks(int argc, char** argv, void (*leave)()) {
  ::testing::InitGoogleTest(&argc, argv);
  ranks().job = bootstrap(Launch::kPmix, 30.0);
  const int result = RUN_ALL_TESTS();
  leave();
  ranks().job->finish();
  return result;
}

}  // namespace echelon::testing
