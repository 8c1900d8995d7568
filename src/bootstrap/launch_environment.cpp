#include "bootstrap/launch_environment.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

std::string text_of(const Getenv& getenv, const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

std::optional<int> count_of(const Getenv& getenv, const char* name) {
  const char* value = getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  int count = 0;
  const char* end = value + std::strlen(value);
  const auto [stop, fault] = std::from_chars(value, end, count);
  if (fault != std::errc{} || stop != end || count < 0) {
    throw Error(Code::kEnvironment, "the environment variable ", name, " is '", value,
                "', expected a number of tasks: start the ", "program with srun or mpirun, or unset it");
  }
  return count;
}

bool bad_version(const std::string& version) {
  return version.find("5.0.8") != version.npos || version.find("5.0.9") != version.npos;
}

}  // namespace

LaunchEnvironment read_launch_environment(const Getenv& getenv) {
  LaunchEnvironment found;
  found.pmix_namespace = text_of(getenv, "PMIX_NAMESPACE");
  found.pmix_version = text_of(getenv, "PMIX_VERSION");
  found.slurm_job = text_of(getenv, "SLURM_JOB_ID");
  found.slurm_step = text_of(getenv, "SLURM_STEP_ID");
  found.mpirun_ranks = count_of(getenv, "OMPI_COMM_WORLD_SIZE");
  if (!text_of(getenv, "TORCHELASTIC_RUN_ID").empty()) found.torchrun_ranks = count_of(getenv, "WORLD_SIZE");
  // A batch script has SLURM_NTASKS and SLURM_PROCID too, but only srun sets the step's variables. The shell
  // of salloc has no SLURM_PROCID, or is a step of one task.
  if (found.slurm_step.empty() && !found.slurm_job.empty() && !text_of(getenv, "SLURM_PROCID").empty()) {
    found.batch_tasks = std::max(count_of(getenv, "SLURM_NTASKS").value_or(1),
                                 count_of(getenv, "SLURM_JOB_NUM_NODES").value_or(1));
  }
  if (!found.slurm_step.empty()) {
    found.slurm_tasks = count_of(getenv, "SLURM_STEP_NUM_TASKS");
    if (!found.slurm_tasks) found.slurm_tasks = count_of(getenv, "SLURM_NTASKS");
    found.slurm_task = count_of(getenv, "SLURM_PROCID");
  }
  // mpirun inside a Slurm step: its ranks inherit the step's variables, which do not describe them.
  if (found.mpirun_ranks && !found.slurm_server()) {
    found.slurm_tasks.reset();
    found.slurm_task.reset();
  }
  return found;
}

void check_launch(Launch launch, const LaunchEnvironment& environment) {
  if (launch == Launch::kSingle) {
    if (environment.torchrun_ranks.value_or(1) > 1) {
      throw Error(Code::kEnvironment, "started by torchrun as one of ", *environment.torchrun_ranks,
                  " workers, which would be ", *environment.torchrun_ranks,
                  " runs of one rank each in the same folder: start it without torchrun, with echelon train ",
                  "--ranks N or srun --mpi=pmix");
    }
    if (!environment.several_tasks()) return;
    throw Error(
        Code::kEnvironment,
        environment.slurm_tasks.value_or(1) > 1
            ? str("a single-process run was requested in task ", environment.slurm_task.value_or(0), " of ",
                  *environment.slurm_tasks, " of a Slurm step: start one task (srun -n 1), or join the step ",
                  "through PMIx (srun --mpi=pmix)")
            : str("a single-process run was requested in a rank of mpirun -n ", *environment.mpirun_ranks,
                  ": start it without mpirun"));
  }
  if (!environment.pmix_namespace.empty()) return;
  if (environment.slurm_tasks.value_or(1) > 1) {
    throw Error(
        Code::kEnvironment, "started by srun as task ", environment.slurm_task.value_or(0), " of ",
        *environment.slurm_tasks,
        " without PMIx: add --mpi=pmix to srun (or set MpiDefault=pmix in slurm.conf); continuing would ",
        "make ", *environment.slurm_tasks, " runs of one rank each in the same folder");
  }
  throw Error(Code::kEnvironment,
              "no PMIx server (PMIX_NAMESPACE is not set): start the ranks with srun --mpi=pmix or mpirun");
}

void check_batch_script(const LaunchEnvironment& environment) {
  if (environment.batch_tasks.value_or(1) <= 1) return;
  throw Error(Code::kEnvironment, "started by the batch script of job ", environment.slurm_job,
              ", which has ", *environment.batch_tasks,
              " tasks or nodes, without srun: one rank would train, the rest of the job stay ",
              "idle; start it with srun --mpi=pmix, or say with --ranks how many local ranks to ", "start");
}

void check_pmix_answer(const std::string& name_space, int size, const LaunchEnvironment& environment) {
  if (name_space.starts_with("singleton")) {
    throw Error(Code::kEnvironment, "PMIx found no server and made this process a job of its own (",
                name_space,
                "): start the ranks with srun --mpi=pmix or mpirun, and pass PMIX_* on into containers");
  }
  if (environment.slurm_tasks && *environment.slurm_tasks != size) {
    throw Error(Code::kEnvironment, "PMIx counts ", size, " ranks in ", name_space, " but Slurm started ",
                *environment.slurm_tasks, " tasks in step ", environment.slurm_job, ".",
                environment.slurm_step, ": start every rank with one srun --mpi=pmix");
  }
}

std::string known_bad_pair(const LaunchEnvironment& environment, const std::string& client_version) {
  const bool bad = bad_version(environment.pmix_version) || bad_version(client_version);
  const bool server_unknown = environment.slurm_server() && environment.pmix_version.empty();
  if (!bad && !server_unknown) return "";
  return str(bad ? "; this is known to hang: " : "; known to hang: ",
             "PMIx 5.0.8 and 5.0.9 with Slurm before 25.11.2 (use PMIx 5.0.6 or a newer Slurm)");
}

}  // namespace echelon
