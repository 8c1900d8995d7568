#include "checkpoint/folder/resume.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/refusal.h"

namespace echelon::checkpoint {
namespace {

std::string refusal_of(Resume resume, bool on_disk, bool in_memory = false) {
  return test::refusal(Code::kUsage, [&] { check_resume(resume, "run/checkpoints", on_disk, in_memory); });
}

TEST(CheckResume, NeverRefusesWhatIsThereUnlessThisJobWroteIt) {
  EXPECT_EQ(refusal_of(Resume::kNever, false), "accepted");
  ::setenv("SLURM_RESTART_COUNT", "0", 1);
  EXPECT_NE(refusal_of(Resume::kNever, true), "accepted");
  EXPECT_NE(refusal_of(Resume::kNever, false, true), "accepted");
  ::setenv("SLURM_RESTART_COUNT", "1", 1);
  EXPECT_EQ(refusal_of(Resume::kNever, true), "accepted") << "a requeue";
  ::unsetenv("SLURM_RESTART_COUNT");
  EXPECT_NE(refusal_of(Resume::kNever, true), "accepted");
  ::setenv("ECHELON_RESTART_IN_PLACE", "1", 1);
  EXPECT_EQ(refusal_of(Resume::kNever, false, true), "accepted") << "a restart in place";
  ::unsetenv("ECHELON_RESTART_IN_PLACE");
}

}  // namespace
}  // namespace echelon::checkpoint
