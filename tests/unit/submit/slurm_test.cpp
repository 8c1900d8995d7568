#include "app/submit/slurm.h"

#include <gtest/gtest.h>

#include "app/submit/follow.h"
#include "app/submit/program.h"
#include "support/matches.h"
#include "support/variable.h"
#include "unit/submit/requests.h"

namespace echelon::submit {
namespace {

TEST(Refusal, PassesOnWhatSlurmSaidWithAdvice) {
  const Error partition = refusal(
      "sbatch: error: invalid partition specified: nope\n"
      "sbatch: error: Batch job submission failed: Invalid partition name specified\n");
  EXPECT_EQ(partition.code(), Code::kUsage);
  EXPECT_STREQ(
      partition.what(),
      "Slurm refuses the job: invalid partition specified: nope; Batch job submission failed: Invalid "
      "partition name specified; `sinfo --summarize` lists the partitions and their limits: --partition, "
      "--time, --nodes");
  EXPECT_EQ(refusal("sbatch: error: Unable to contact slurm controller (connect failure)\n").code(),
            Code::kEnvironment);
  const Error unknown = refusal("sbatch: error: \x1b[31mno\n");
  EXPECT_EQ(unknown.code(), Code::kEnvironment);
  EXPECT_MENTIONS(unknown.what(), "\\x1b[31mno; the script is kept");
  EXPECT_MENTIONS(refusal("").what(), "it does not say why");
}

TEST(Command, SeesTheEnvironmentWithoutWhatBelongsToAnotherJob) {
  const test::Variable job("SLURM_JOB_ID", "17");
  const test::Variable configuration("SLURM_CONF", "/etc/slurm.conf");
  const test::Variable fence("SLURM_PMIX_FENCE", "tree");
  const test::Variable partition("SBATCH_PARTITION", "a");
  const test::Variable qos("SBATCH_QOS", "b");
  const ProgramRun result = run_command(
      {"sh", "-c",
       "echo ${SLURM_JOB_ID-no} $SLURM_CONF $SLURM_PMIX_FENCE ${SBATCH_PARTITION-no} $SBATCH_QOS"},
      {"SBATCH_PARTITION"});
  EXPECT_EQ(result.out, "no /etc/slurm.conf tree no b\n");
}

TEST(Command, IsMissingOrPrintsWithoutEnd) {
  EXPECT_TRUE(error_of([] {
                return run_command({"no-such-program"});
              }).starts_with("3: cannot start no-such-program: "));
  EXPECT_TRUE(error_of([] { return run_command({"yes"}); }).starts_with("3: yes was stopped: "));
}

JobStatus job(const std::string& state, const std::string& reason, const std::string& code) {
  return parse_job("JobId=5 JobName=smoke UserId=root(0) JobState=" + state + " Reason=" + reason +
                   " Dependency=(null) Restarts=0 ExitCode=" + code + " RunTime=00:00:05\n");
}

TEST(JobStatus, IsReadFromScontrol) {
  const JobStatus status = job("PENDING", "Resources", "0:0");
  EXPECT_EQ(status.state, "PENDING");
  EXPECT_EQ(status.reason, "Resources");
  EXPECT_FALSE(status.is_over());
  EXPECT_FALSE(status.is_stuck());
  for (const char* bad :
       {"", "JobState=", "slurm_load_jobs error", "JobId=5 JobState=RUNNING", "x JobState=A ExitCode=1"})
    EXPECT_TRUE(error_of([&] { return parse_job(bad); }).starts_with("3: scontrol shows no job")) << bad;
}

TEST(JobStatus, EndsAWaitWithTheJobsExitCode) {
  EXPECT_EQ(job("COMPLETED", "None", "0:0").exit_status(), 0);
  EXPECT_EQ(job("FAILED", "NonZeroExitCode", "4:0").exit_status(), 4);
  EXPECT_EQ(job("CANCELLED", "None", "0:15").exit_status(), 143);
  EXPECT_EQ(job("TIMEOUT", "TimeLimit", "0:0").exit_status(), 3);
  EXPECT_TRUE(job("NODE_FAIL", "None", "0:0").is_over());
  EXPECT_FALSE(job("COMPLETING", "None", "0:0").is_over());
  EXPECT_FALSE(job("RUNNING", "None", "0:0").is_over());
}

TEST(JobStatus, IsStuckWhenItWouldWaitForEver) {
  for (const char* reason : {"JobHeldUser", "JobHeldAdmin", "DependencyNeverSatisfied", "PartitionNodeLimit",
                             "job_requeued_in_held_state", "launch_failed_requeued_held"}) {
    EXPECT_TRUE(job("PENDING", reason, "85:0").is_stuck()) << reason;
    EXPECT_EQ(job("PENDING", reason, "0:0").exit_status(), 85) << reason;
  }
  EXPECT_FALSE(job("PENDING", "BeginTime", "85:0").is_stuck());
  EXPECT_FALSE(job("RUNNING", "JobHeldUser", "0:0").is_stuck());
}

}  // namespace
}  // namespace echelon::submit
