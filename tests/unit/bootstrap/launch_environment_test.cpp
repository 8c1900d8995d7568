#include "bootstrap/launch_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"

namespace echelon {
namespace {

using Variables = std::map<std::string, std::string>;

LaunchEnvironment environment_of(const Variables& variables) {
  return read_launch_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(Launch launch, const Variables& variables) {
  std::string said =
      test::refusal(Code::kEnvironment, [&] { check_launch(launch, environment_of(variables)); });
  EXPECT_FALSE(test::mentions(said, "\n"));
  return said;
}

const Variables kBatchScript = {{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}};
const Variables kStepWithoutPmix = {{"SLURM_JOB_ID", "7"},
                                    {"SLURM_STEP_ID", "0"},
                                    {"SLURM_STEP_NUM_TASKS", "8"},
                                    {"SLURM_NTASKS", "8"},
                                    {"SLURM_PROCID", "3"}};
const Variables kMpirun = {{"PMIX_NAMESPACE", "123"}, {"PMIX_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};

Variables with(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

TEST(LaunchEnvironment, AStepWithoutPmixIsRefusedInsteadOfBecomingManyJobs) {
  const std::string text = refusal(Launch::kPmix, kStepWithoutPmix);
  EXPECT_MENTIONS(
      text, "started by srun as task 3 of 8 without PMIx: add --mpi=pmix to srun (or set MpiDefault=pmix");
}

TEST(LaunchEnvironment, OneProcessOfAStepOfSeveralMayNotGoAlone) {
  EXPECT_MENTIONS(refusal(Launch::kSingle, kStepWithoutPmix), "task 3 of 8");
  EXPECT_MENTIONS(refusal(Launch::kSingle, kMpirun), "mpirun -n 2");
}

TEST(LaunchEnvironment, AWorkerOfTorchrunMayNotGoAlone) {
  const auto started_by = [](const char* workers) {
    return Variables{{"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", workers}, {"RANK", "1"}};
  };
  EXPECT_MENTIONS(refusal(Launch::kSingle, started_by("2")), "started by torchrun as one of 2 workers",
                  "echelon train --ranks N or srun --mpi=pmix");
  EXPECT_EQ(refusal(Launch::kSingle, started_by("1")), "accepted");
  EXPECT_EQ(refusal(Launch::kSingle, {{"WORLD_SIZE", "2"}}), "accepted");
  EXPECT_EQ(refusal(Launch::kPmix, with(kMpirun, started_by("2"))), "accepted");
}

TEST(LaunchEnvironment, ABatchScriptIsNoStep) {
  EXPECT_EQ(refusal(Launch::kSingle, kBatchScript), "accepted");
  EXPECT_FALSE(environment_of(kBatchScript).several_tasks());
  EXPECT_MENTIONS(refusal(Launch::kPmix, kBatchScript), "no PMIx server");
}

TEST(LaunchEnvironment, ABatchScriptOfSeveralTasksMayNotTrainWithOneRank) {
  const auto said = [](const Variables& variables) {
    return test::refusal(Code::kEnvironment, [&] { check_batch_script(environment_of(variables)); });
  };
  EXPECT_MENTIONS(said(kBatchScript), "the batch script of job 7, which has 8 tasks or nodes, without srun",
                  "srun --mpi=pmix", "--ranks");
  EXPECT_MENTIONS(said({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NUM_NODES", "2"}}),
                  "has 2 ");
  const Variables one{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_NUM_NODES", "1"}};
  EXPECT_EQ(said(one), "accepted");
  EXPECT_EQ(said(with(one, {{"SLURM_NTASKS", "1"}})), "accepted");
  const Variables shell_of_salloc{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_NUM_NODES", "2"}};
  EXPECT_EQ(said(shell_of_salloc), "accepted");
  EXPECT_EQ(
      said(with(shell_of_salloc,
                {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}})),
      "accepted");
  EXPECT_EQ(said(kStepWithoutPmix), "accepted") << "check_launch() refuses it";
}

TEST(LaunchEnvironment, MpirunInsideAStepGoesByMpirunsCount) {
  const auto environment = environment_of(with(
      kMpirun,
      {{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "0"}}));
  EXPECT_NO_THROW(check_launch(Launch::kPmix, environment));
  EXPECT_NO_THROW(check_pmix_answer("123", 2, environment));
}

TEST(LaunchEnvironment, AStepOfOneTaskMayRunAlone) {
  EXPECT_EQ(refusal(Launch::kSingle,
                    {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}),
            "accepted");
}

TEST(LaunchEnvironment, CountsThatAreNoNumbersAreNamed) {
  for (const char* bad : {"eight", "8x", "-1", "99999999999"}) {
    const std::string said = test::error_of([&] {
      return environment_of({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", bad}});
    });
    EXPECT_MENTIONS(said, bad, "SLURM_STEP_NUM_TASKS");
  }
}

TEST(LaunchEnvironment, APmixSingletonIsRefused) {
  EXPECT_THROW(check_pmix_answer("singleton.n0.77", 1, environment_of({})), Error);
}

TEST(LaunchEnvironment, PmixAndSlurmMustCountAlike) {
  const auto environment = environment_of(with(kStepWithoutPmix, {{"PMIX_NAMESPACE", "slurm.pmix.7.0"}}));
  EXPECT_NO_THROW(check_pmix_answer("slurm.pmix.7.0", 8, environment));
  const std::string said = test::error_of([&] { check_pmix_answer("slurm.pmix.7.0", 1, environment); });
  EXPECT_MENTIONS(said, "PMIx counts 1 ranks", "step 7.0");
}

TEST(LaunchEnvironment, NamesThePairThatHangs) {
  const auto slurm = [](const char* version) {
    return environment_of({{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"PMIX_VERSION", version}});
  };
  EXPECT_MENTIONS(known_bad_pair(slurm("5.0.9"), "PMIx 4.2.2"), "25.11.2");
  EXPECT_MENTIONS(known_bad_pair(slurm(""), "PMIx 4.2.2"), "25.11.2");
  EXPECT_EQ(known_bad_pair(slurm("4.2.2"), "PMIx 4.2.2"), "");
  EXPECT_EQ(known_bad_pair(environment_of(kMpirun), "PMIx 4.2.2"), "");
}

}  // namespace
}  // namespace echelon
