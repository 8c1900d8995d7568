#include "run/deadline.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

constexpr double kNow = 1772364600;  // 2026-03-01 11:30:00 UTC

/// A job whose steps take 3 s and whose saves take 60 s, with a margin of 10 s.
struct Job {
  double now = kNow;
  Deadline::Setting setting{.job_end_s = kNow + 1000, .margin_s = 10, .assumed_save_s = 20};

  Deadline deadline() {
    setting.now_s = [this] { return now; };
    Deadline made(setting);
    made.step_took(3);
    made.save_took(60);
    return made;
  }
};

constexpr Deadline::Ahead kStep{.step = true};

struct DeadlineOfAJob : ::testing::Test {
  Job job;
};

TEST_F(DeadlineOfAJob, StopsWhenOneMoreStepASaveAndTheMarginNoLongerFit) {
  Deadline deadline = job.deadline();
  job.now = kNow + 1000 - 73;
  EXPECT_EQ(deadline.reason_to_stop(kStep), "");
  job.now += 0.01;
  EXPECT_EQ(deadline.reason_to_stop(kStep),
            "the job ends at 11:46:40 UTC, in 73 s; one more step (3 s), a save (60 s) and a margin of 10 s "
            "do not fit before then");
}

TEST_F(DeadlineOfAJob, NeverStopsWhereNoEndIsKnown) {
  for (const std::optional<double> end :
       {std::optional<double>(), std::optional(std::numeric_limits<double>::infinity())}) {
    job.setting.job_end_s = end;
    Deadline deadline = job.deadline();
    job.now = kNow + 1e9;
    EXPECT_EQ(deadline.reason_to_stop(kStep), "");
    EXPECT_EQ(deadline.describe(), "");
  }
}

TEST_F(DeadlineOfAJob, CountsTheValidationThatIsDue) {
  Deadline deadline = job.deadline();
  job.now = kNow + 1000 - 80;
  EXPECT_EQ(deadline.reason_to_stop({.step = true, .validation = true}), "")
      << "not measured yet; it is interrupted";
  deadline.validation_took(20);
  EXPECT_MENTIONS(deadline.reason_to_stop({.step = true, .validation = true}),
                  "; a validation (20 s), one more step");
  EXPECT_EQ(deadline.reason_to_stop(kStep), "");
}

TEST_F(DeadlineOfAJob, WaitsForASaveThatIsUnderWay) {
  Deadline deadline = job.deadline();
  job.now = kNow + 1000 - 100;
  EXPECT_EQ(deadline.reason_to_stop({.step = true, .beside_s = 30}), "") << "30 beside the step, 60, 10";
  EXPECT_MENTIONS(deadline.reason_to_stop({.step = true, .beside_s = 31}),
                  "the save under way (31 s), a save (60 s)");
  EXPECT_EQ(deadline.reason_to_stop({.step = true, .before_s = 27}), "") << "27, then 3, 60, 10";
  EXPECT_NE(deadline.reason_to_stop({.step = true, .before_s = 28}), "");
}

TEST_F(DeadlineOfAJob, InAValidationOnlyTheSaveHasToFit) {
  Deadline deadline = job.deadline();
  job.now = kNow + 1000 - 70;
  EXPECT_EQ(deadline.reason_to_stop({}), "");
  job.now += 0.01;
  EXPECT_NE(deadline.reason_to_stop({}), "");
}

TEST_F(DeadlineOfAJob, OfACapacityBlockIsHalfAnHourBeforeItsEnd) {
  job.setting.capacity_end_s = kNow + 1800 + 500;
  Deadline deadline = job.deadline();
  job.now = kNow + 427;
  EXPECT_EQ(deadline.reason_to_stop(kStep), "");
  job.now = kNow + 428;
  EXPECT_EQ(deadline.reason_to_stop(kStep),
            "the nodes of the capacity block are taken back at 11:38:20 UTC, in 72 s; one more step (3 s), a "
            "save (60 "
            "s) and a margin of 10 s do not fit before then");
}

TEST_F(DeadlineOfAJob, AsksForTheEndOnceMoreBeforeItStops) {
  int asked = 0;
  std::optional<double> answer;
  job.setting.ask_job_end = [&] {
    ++asked;
    return answer;
  };
  Deadline deadline = job.deadline();
  EXPECT_EQ(deadline.reason_to_stop(kStep), "");
  EXPECT_EQ(asked, 0);
  job.now = kNow + 950;
  EXPECT_NE(deadline.reason_to_stop(kStep), "") << "no answer";
  EXPECT_EQ(asked, 1);
  answer = kNow + 5000;
  EXPECT_EQ(deadline.reason_to_stop(kStep), "") << "extended";
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(deadline.reason_to_stop(kStep), "");
  EXPECT_EQ(asked, 2) << "asked only when it matters";
  job.now = kNow + 4950;
  EXPECT_NE(deadline.reason_to_stop(kStep), "");
  answer = std::numeric_limits<double>::infinity();
  EXPECT_EQ(deadline.reason_to_stop(kStep), "") << "no limit any more";
}

TEST_F(DeadlineOfAJob, AForecastOfStepsIsTheLongestButForHiccups) {
  Deadline deadline(Deadline::Setting{.now_s = [] { return kNow; }});
  EXPECT_EQ(deadline.expected().step, std::nullopt);
  deadline.step_took(30);  // the first one warms up
  EXPECT_EQ(deadline.expected().step, 30);
  deadline.step_took(1);
  EXPECT_EQ(deadline.expected().step, 3);
  for (int i = 0; i < 5; ++i) deadline.step_took(2);
  deadline.step_took(2.5);
  EXPECT_EQ(deadline.expected().step, 6);
  for (int i = 0; i < 20; ++i) deadline.step_took(i == 3 ? 2.5 : 2);
  EXPECT_EQ(deadline.expected().step, 2.5);
}

TEST_F(DeadlineOfAJob, ASaveIsExpectedToTakeAsLongAsTheSlowestOfTheLastThree) {
  Deadline::Setting setting{.assumed_save_s = 7, .now_s = [] { return kNow; }};
  EXPECT_EQ(Deadline(setting).save_s(), 7);
  setting.earlier.save = 5;
  Deadline deadline(setting);
  EXPECT_EQ(deadline.save_s(), 5);
  for (const double seconds : {9.0, 3.0, 4.0}) deadline.save_took(seconds);
  EXPECT_EQ(deadline.save_s(), 9);
  deadline.save_took(2);
  EXPECT_EQ(deadline.save_s(), 4);
}

TEST_F(DeadlineOfAJob, AStartThatCannotEvenDoOneStepIsRefusedWithAdvice) {
  job.setting.job_end_s = kNow + 72;
  (void)job.deadline();
  Deadline(job.setting).require_room();  // nothing is known of earlier starts
  job.setting.earlier = {.step = 3, .save = 60};
  EXPECT_EQ(
      test::refusal(Code::kUsage,
                    [&] { Deadline(job.setting).require_room(); }),  // not 85, which would come back
      "the job ends at 11:31:12 UTC, in 72 s: too soon for one step (3 s), a save (60 s) and a margin of "
      "10 s, as measured in earlier starts. No step was trained, and starting again would not help: give "
      "the job more time (--time), or lower cluster.stop_margin_s");
  job.setting.job_end_s = kNow + 73;
  Deadline(job.setting).require_room();
}

TEST_F(DeadlineOfAJob, ACapacityBlockThatIsOverIsRefused) {
  job.setting.capacity_end_s = kNow + 1799;
  (void)job.deadline();
  EXPECT_THROW(Deadline(job.setting).require_room(), Error);
}

TEST_F(DeadlineOfAJob, WarnsWhenTheGraceIsShorterThanASave) {
  EXPECT_EQ(job.deadline().grace_warning(), "") << "not known";
  job.setting.grace_s = 60;
  EXPECT_EQ(job.deadline().grace_warning(), "");
  job.setting.grace_s = 30;
  EXPECT_EQ(job.deadline().grace_warning().substr(0, 77),
            "a save takes about 60 s, and Slurm may kill the job 30 s after the signal (Ki");
}

}  // namespace
}  // namespace echelon
