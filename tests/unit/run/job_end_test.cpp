#include "run/job_end.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "support/temp_dir.h"
#include "support/variable.h"

namespace echelon {
namespace {

using test::Variable;

/// A folder in front of PATH that holds a program called squeue.
class Squeue {
 public:
  explicit Squeue(const std::string& body)
      : path_("PATH", folder_.path().string() + ":" + std::getenv("PATH")) {
    const auto file = folder_.path() / "squeue";
    std::ofstream(file) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

 private:
  test::TempDir folder_;
  Variable path_;
};

TEST(JobEnd, IsWhatSlurmPrintsAsSeconds) {
  EXPECT_EQ(parse_job_end("1772364600\n"), 1772364600);
  EXPECT_EQ(parse_job_end("1772364600\n1772364700\n"), 1772364600) << "a heterogeneous job";
  EXPECT_EQ(parse_job_end("NONE\n"), std::numeric_limits<double>::infinity());
  for (const char* text : {"", "\n", "N/A\n", "INVALID\n", "Unknown", "0\n", "-5\n", "2026-03-01T11:30:00\n",
                           "1e9\n", "99999999999999999999999\n"})
    EXPECT_EQ(parse_job_end(text), std::nullopt) << text;
}

TEST(JobEnd, ComesFromTheEnvironmentFirst) {
  const Variable job("SLURM_JOB_ID", "17");
  const Squeue squeue("exit 1");
  {
    const Variable end("SLURM_JOB_END_TIME", "5000");
    EXPECT_EQ(job_end(4000), 5000);
  }
  for (const char* value : {"", "soon", "-1", "5000s", "nan", "inf"}) {
    const Variable end("SLURM_JOB_END_TIME", value);
    EXPECT_EQ(job_end(4000), std::nullopt) << value;
  }
}

TEST(JobEnd, IsAskedOfSqueueWithTheJobsNumber) {
  const Variable job("SLURM_JOB_ID", "17");
  const Squeue squeue(
      "[ \"$SLURM_TIME_FORMAT\" = %s ] && [ \"$*\" = '--noheader --jobs 17 --format=%e' ] && echo 5000");
  EXPECT_EQ(ask_job_end(), 5000);
  EXPECT_EQ(job_end(4000), 5000);
}

TEST(JobEnd, ThatIsPastIsNoneOrTheOneSlurmKnowsNow) {
  const Variable job("SLURM_JOB_ID", "17");
  const Variable end("SLURM_JOB_END_TIME", "3000");
  {
    const Squeue squeue("echo 5000");
    EXPECT_EQ(job_end(4000), 5000);
  }
  const Squeue squeue("echo 3500");
  EXPECT_EQ(job_end(4000), std::nullopt);
}

TEST(JobEnd, IsUnknownWhereSlurmDoesNotAnswer) {
  EXPECT_EQ(ask_job_end(), std::nullopt) << "no job";
  const Variable job("SLURM_JOB_ID", "17");
  {
    const Squeue squeue("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
    EXPECT_EQ(ask_job_end(), std::nullopt);
  }
  const Squeue squeue("exec sleep 60");
  EXPECT_EQ(ask_job_end(0.1), std::nullopt);
}

}  // namespace
}  // namespace echelon
