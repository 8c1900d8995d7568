#include "app/doctor/machine/slurm_state.h"

#include <cmath>

#include "base/process/program.h"
#include "base/str.h"

namespace echelon::app::doctor {

Finding ask_slurm(double deadline_s, std::optional<SlurmState>& state) {
  const ProgramRun config = run_program({"scontrol", "show", "config"}, deadline_s);
  if (!config.found) {
    return fault(
        "slurm", "there is no Slurm here: scontrol is not in PATH",
        "run this on a login node; on a single machine no Slurm is needed (echelon train --ranks N)");
  }
  SlurmState found;
  found.settings = parse_slurm_settings(config.out);
  if (!config.good() || found.settings["SLURM_VERSION"].empty()) {
    return fault("slurm",
                 config.good() ? "scontrol show config shows no SLURM_VERSION" : config.trouble("scontrol"),
                 "scontrol ping shows whether slurmctld is up; check SLURM_CONF and munge on this machine");
  }
  found.partitions =
      parse_slurm_records(run_program({"scontrol", "--oneliner", "show", "partition"}, deadline_s).out);
  found.nodes = parse_slurm_records(run_program({"scontrol", "--oneliner", "show", "nodes"}, deadline_s).out);
  const ProgramRun mpi = run_program({"srun", "--mpi=list"}, deadline_s);
  if (mpi.good()) found.mpi_types = mpi.out + mpi.err;
  const double milliseconds = std::round(config.seconds * 1000);
  Finding answer =
      ok("slurm", str("Slurm ", found.settings["SLURM_VERSION"], " answers in ", milliseconds, " ms"));
  answer.values = {{"version", found.settings["SLURM_VERSION"]}, {"answer_ms", milliseconds}};
  state = std::move(found);
  return answer;
}

}  // namespace echelon::app::doctor
