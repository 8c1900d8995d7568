#include "checkpoint/folder/resume.h"

#include <gtest/gtest.h>

#include "support/refusal.h"
#include "support/variable.h"

namespace echelon::checkpoint {
namespace {

std::string refusal_of(Resume resume, bool on_disk, bool in_memory = false) {
  return test::refusal(Code::kUsage, [&] { check_resume(resume, "run/checkpoints", on_disk, in_memory); });
}

TEST(CheckResume, NeverRefusesWhatIsThereUnlessThisJobWroteIt) {
  EXPECT_EQ(refusal_of(Resume::kNever, false), "accepted");
  test::Variable requeues("SLURM_RESTART_COUNT", "0");
  EXPECT_NE(refusal_of(Resume::kNever, true), "accepted");
  EXPECT_NE(refusal_of(Resume::kNever, false, true), "accepted");
  requeues.set("1");
  EXPECT_EQ(refusal_of(Resume::kNever, true), "accepted") << "a requeue";
  requeues.set(std::nullopt);
  EXPECT_NE(refusal_of(Resume::kNever, true), "accepted");
  const test::Variable restarts("ECHELON_RESTART_IN_PLACE", "1");
  EXPECT_EQ(refusal_of(Resume::kNever, false, true), "accepted") << "a restart in place";
}

}  // namespace
}  // namespace echelon::checkpoint
