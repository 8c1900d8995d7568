// Joins the job, runs all tests on every rank, and reports failures of any rank.
#include <gtest/gtest.h>

#include "comm/mpi/mpi_world.h"
#include "dist/ranks.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::unique_ptr<echelon::Job>& job = echelon::testing::ranks().job;
  job = echelon::bootstrap(echelon::Launch::kPmix, 30.0);
  const int result = RUN_ALL_TESTS();
  echelon::finish_mpi();
  job->finish();
  return result;
}
