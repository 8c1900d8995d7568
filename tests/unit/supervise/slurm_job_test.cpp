#include "app/supervise/slurm_job.h"

#include <gtest/gtest.h>

#include "base/files/new_file.h"
#include "base/process/process.h"
#include "base/str.h"
#include "support/temp_dir.h"
#include "support/variable.h"

namespace echelon::supervise {
namespace {

TEST(SlurmJob, KeepsItsNodesOnlyWhereThereIsATemporaryFolder) {
  const test::TempDir folder;
  const std::filesystem::path scontrol = folder.path() / "scontrol";
  fs::replace_file(scontrol, "#!/bin/sh\necho n0\n", Code::kEnvironment);
  std::filesystem::permissions(scontrol, std::filesystem::perms::owner_all);
  const test::Variable path("PATH", str(folder.path().string(), ":", environment_variable("PATH")).c_str());
  const test::Variable number("SLURM_JOB_ID", "17");
  const test::Variable nodes("SLURM_JOB_NODELIST", "n0");
  const test::Variable given("TMPDIR", folder.path().c_str());
  const SlurmJob job;
  EXPECT_TRUE(job.keep_nodes({"n0"}));
  const test::Variable gone("TMPDIR", "/does/not/exist");
  EXPECT_FALSE(job.keep_nodes({"n0"}));
}

}  // namespace
}  // namespace echelon::supervise
