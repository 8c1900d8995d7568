#include "app/doctor/checks/slurm_checks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "app/doctor/machine/version.h"
#include "base/number.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/process/slurm_text.h"
#include "base/str.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {
namespace {

struct SlurmState {
  SlurmRecord settings;                  ///< scontrol show config
  std::vector<SlurmRecord> partitions;   ///< scontrol --oneliner show partition
  std::vector<SlurmRecord> nodes;        ///< scontrol --oneliner show nodes
  std::optional<std::string> mpi_types;  ///< srun --mpi=list; nothing if srun fails
};

constexpr const char* kPmixFile = "/opt/pmix/lib/pkgconfig/pmix.pc";

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  return read_integer(text, value).empty() ? std::optional(value) : std::nullopt;
}

/// Parses the line "Version: 5.0.6" of a pkg-config file.
std::string version_line(const std::string& pkg_config) {
  const auto at = pkg_config.find("Version:");
  return at == pkg_config.npos ? "" : pkg_config.substr(at, pkg_config.find('\n', at) - at);
}

struct BadPair {
  Version pmix_from;
  Version pmix_to;  ///< inclusive
  Version slurm_from;
  Version slurm_fixed;  ///< first version that works
  const char* what;
  const char* advice;
};

constexpr Version kAny{{0, 0, 0}};
constexpr Version kLast{{999, 999, 999}};

const std::array<BadPair, 3> kBadPairs{{
    {{{5, 0, 8}},
     {{5, 0, 9}},
     kAny,
     {{25, 11, 2}},
     "ranks hang in PMIx_Init (openpmix issue 3645)",
     "use PMIx 5.0.6 or Slurm 25.11.2 or later"},
    {{{6, 0, 0}},
     kLast,
     kAny,
     {{25, 5, 2}},
     "its plugin does not know PMIx 6",
     "use PMIx 5 or Slurm 25.05.2 or later"},
    {kAny,
     kLast,
     {{24, 11, 0}},
     {{24, 11, 1}},
     "ranks crash while they connect (openpmix issue 3559)",
     "use another release of Slurm 24.11"},
}};

/// The partition that `wish` uses; null if there is none.
const SlurmRecord* partition_of(const SlurmState& slurm, const JobWish& wish) {
  const auto fits = [&](const SlurmRecord& partition) {
    return wish.partition.empty() ? partition["Default"] == "YES"
                                  : partition["PartitionName"] == wish.partition;
  };
  const auto found = std::ranges::find_if(slurm.partitions, fits);
  return found == slurm.partitions.end() ? nullptr : &*found;
}

/// Returns the parts of `wish` that `partition` does not allow, or "".
std::string refusal(const SlurmRecord& partition, const JobWish& wish) {
  if (partition["State"] != "UP") return str("is ", partition["State"], ": it does not accept or start jobs");
  for (const char* limit : {"MaxNodes", "TotalNodes"}) {
    const std::optional<std::int64_t> most = number(partition[limit]);
    if (most && wish.nodes > *most)
      return str("has ", limit, "=", *most, ", but ", wish.nodes, " are requested");
  }
  const std::optional<std::int64_t> cpus = number(partition["MaxCPUsPerNode"]);
  if (cpus && wish.tasks_per_node > *cpus)
    return str("has MaxCPUsPerNode=", *cpus, ", but ", wish.tasks_per_node, " tasks are requested on each");
  const std::optional<std::int64_t> time = slurm_seconds(partition["MaxTime"]);
  if (time && wish.time_s.value_or(0) > *time)
    return str("has MaxTime=", partition["MaxTime"], ", but ", *wish.time_s / 60, " minutes are requested");
  return "";
}

/// Slurm joins the states of a node with '+' and appends '*' if the node does not respond.
bool unfit(const std::string& state) {
  if (state.find('*') != state.npos) return true;
  const std::string all = "+" + state + "+";
  constexpr std::array<const char*, 8> kUnfit{"DOWN", "DRAIN", "DRAINED", "DRAINING",
                                              "FAIL", "ERROR", "UNKNOWN", "NOT_RESPONDING"};
  return std::ranges::any_of(kUnfit,
                             [&](const char* bad) { return all.find(str("+", bad, "+")) != all.npos; });
}

bool contains(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

Finding check_pmix_plugin(const SlurmState& slurm) {
  if (!slurm.mpi_types)
    return unknown("pmix_plugin", "srun --mpi=list does not answer, so its PMIx plugins are unknown",
                   "install Slurm's client commands on this machine");
  const std::string& types = *slurm.mpi_types;
  const auto at = types.find("pmix");
  if (at == types.npos) {
    return fault(
        "pmix_plugin", "srun --mpi=list lists no pmix: ranks cannot find each other",
        "build Slurm with --with-pmix (Debian: apt-get install slurm-wlm-basic-plugins libpmix-dev)");
  }
  const auto versions = types.find("pmix_v");
  return ok("pmix_plugin", versions == types.npos
                               ? "srun has the PMIx plugin"
                               : "srun has " + types.substr(versions, types.find('\n', versions) - versions));
}

/// The versions of Slurm and PMIx are not a pair that is known to fail. The PMIx version is taken from the
/// files below /opt/pmix (ParallelCluster's place), else from this program's library.
Finding check_pmix_version(const SlurmState& slurm, const Machine& machine) {
  const std::string slurm_text = slurm.settings["SLURM_VERSION"];
  const std::string installed = version_line(machine.text(kPmixFile).value_or(""));
  const std::string pmix_text = installed.empty() ? pmix_version() : installed;
  const auto slurm_version = find_version(slurm_text);
  const auto pmix = find_version(pmix_text);
  if (!slurm_version || !pmix)
    return unknown("pmix_version",
                   str("cannot read the versions in '", slurm_text, "' and '", pmix_text, "'"));
  const std::string pair =
      str("Slurm ", slurm_text, " with PMIx ", pmix_text.substr(pmix_text.find_first_of("0123456789")),
          installed.empty() ? "" : " of /opt/pmix");
  for (const BadPair& bad : kBadPairs) {
    if (*pmix < bad.pmix_from || *pmix > bad.pmix_to) continue;
    if (*slurm_version < bad.slurm_from || *slurm_version >= bad.slurm_fixed) continue;
    return fault("pmix_version", str(pair, " is known to fail: ", bad.what), bad.advice);
  }
  return ok("pmix_version", str(pair, " is not known to fail"));
}

Finding check_mpi_default(const SlurmState& slurm) {
  const std::string value = slurm.settings["MpiDefault"];
  if (value.rfind("pmix", 0) == 0) return ok("mpi_default", "MpiDefault is " + value);
  return warning(
      "mpi_default",
      str("MpiDefault is ", value.empty() ? "not set" : value,
          ": an srun without --mpi=pmix starts tasks that do not find each other, and they refuse to run"),
      "set MpiDefault=pmix in slurm.conf (ParallelCluster: CustomSlurmSettings), or always write "
      "srun --mpi=pmix as cluster/slurm/train.sbatch does");
}

/// Checks which algorithm PMIx fences use. The environment overrides mpi.conf.
Finding check_pmix_fence(const SlurmState& slurm) {
  std::string fence = environment_variable("SLURM_PMIX_FENCE");
  const char* origin = fence.empty() ? "PMIxCollFence" : "SLURM_PMIX_FENCE";
  if (fence.empty()) fence = slurm.settings[origin];
  if (fence.empty()) fence = "mixed";
  if (fence == "ring") return ok("pmix_fence", str(origin, " is ring"));
  const char* advice =
      "export SLURM_PMIX_FENCE=ring, or set PMIxCollFence=ring in mpi.conf; "
      "cluster/slurm/train.sbatch does the first";
  if (fence == "tree") {
    return fault("pmix_fence",
                 str(origin, " is tree: addresses that MPI publishes after start-up do not arrive"), advice);
  }
  return warning(
      "pmix_fence",
      str(origin, " is ", fence,
          ": on busy nodes Open MPI programs occasionally crash in MPI_Init (open-mpi/ompi 12495)"),
      advice);
}

/// The time between the signal that ends a job and SIGKILL is long enough for a save.
Finding check_kill_wait(const SlurmState& slurm, const std::optional<SavePrediction>& save) {
  const std::string text = slurm.settings["KillWait"];
  const std::optional<std::int64_t> wait = slurm_seconds(text);
  if (!wait) return unknown("kill_wait", str("KillWait is '", text, "', expected a number of seconds"));
  if (!save) {
    return ok("kill_wait",
              str("KillWait is ", *wait, " s; with --recipe it is compared with the time of a save"));
  }
  const double seconds = std::ceil(save->seconds * 10) / 10;
  Finding finding = ok("kill_wait", str("KillWait is ", *wait, " s, a save is predicted to take ", seconds,
                                        " s (", save->how, ")"));
  finding.values = {{"kill_wait_s", *wait}, {"save_s", seconds}};
  if (seconds <= static_cast<double>(*wait)) return finding;
  finding.verdict = Verdict::kWarning;
  finding.text += ": requeue, preemption and scancel kill the run before it has saved";
  finding.advice =
      str("set KillWait=", static_cast<long>(seconds * 2) + 30,
          " in slurm.conf, save more often (checkpoint.every_minutes), or save faster: more nodes, "
          "smaller optimizer states");
  return finding;
}

Finding check_job_requeue(const SlurmState& slurm) {
  if (slurm.settings["JobRequeue"] != "0")
    return ok("job_requeue", "JobRequeue is 1: lost nodes requeue their jobs");
  return warning("job_requeue", "JobRequeue is 0: a job that is preempted or loses a node is not requeued",
                 "sbatch --requeue (cluster/slurm/train.sbatch has it), or JobRequeue=1 in slurm.conf");
}

Finding check_preemption(const SlurmState& slurm) {
  const std::string type = slurm.settings["PreemptType"];
  const std::string mode = slurm.settings["PreemptMode"];
  if (type.empty() || type == "preempt/none") return ok("preemption", "jobs are not preempted");
  if (mode.find("CANCEL") == mode.npos) return ok("preemption", str("preempted jobs: PreemptMode=", mode));
  return warning(
      "preemption", "PreemptMode is CANCEL: a preempted job is not requeued",
      "ask the administrator for PreemptMode=REQUEUE, or submit a successor with --dependency=afternotok");
}

Finding check_partition(const SlurmState& slurm, const JobWish& wish) {
  const std::vector<std::string> names =
      mapped(slurm.partitions, [](const SlurmRecord& each) { return each["PartitionName"]; });
  const SlurmRecord* partition = partition_of(slurm, wish);
  if (partition == nullptr && wish.partition.empty()) {
    return warning("partition", "there is no default partition: sbatch without --partition is refused",
                   str("name one of ", listed(names), " with --partition"));
  }
  if (partition == nullptr) {
    const std::string meant = nearest(wish.partition, names);
    return fault("partition", str("there is no partition '", wish.partition, "'"),
                 meant.empty() ? "use one of " + listed(names) : str("did you mean '", meant, "'?"));
  }
  const std::string name = (*partition)["PartitionName"];
  const std::string why = refusal(*partition, wish);
  if (!why.empty())
    return fault("partition", str("partition ", name, " ", why),
                 "request less, or use one of " + listed(names));
  // train.sbatch requests its signal 60 s before the end, and Slurm may send it up to a minute earlier.
  const std::optional<std::int64_t> limit = slurm_seconds((*partition)["MaxTime"]);
  if (limit && *limit <= 120) {
    return warning("partition",
                   str("partition ", name, " ends jobs after ", *limit,
                       " s, and cluster/slurm/train.sbatch begins to stop 60 to 120 s before the end"),
                   "use another partition, or submit with a smaller --signal=USR2@N");
  }
  return ok("partition", str("partition ", name, " is up, ", (*partition)["TotalNodes"], " nodes, MaxTime ",
                             (*partition)["MaxTime"]));
}

/// Reports nodes that accept no jobs, and whether enough others remain for `wish`.
Finding check_nodes(const SlurmState& slurm, const JobWish& wish) {
  const SlurmRecord* partition = partition_of(slurm, wish);
  const std::string name = partition == nullptr ? "" : (*partition)["PartitionName"];
  std::vector<std::string> bad;
  std::vector<std::string> reasons;
  int fit = 0;
  for (const SlurmRecord& node : slurm.nodes) {
    if (!name.empty() && !contains(node["Partitions"], name)) continue;
    if (!unfit(node["State"])) {
      ++fit;
      continue;
    }
    bad.push_back(node["NodeName"]);
    const std::string reason = node["Reason"];
    reasons.push_back(str(node["NodeName"], " is ", node["State"],
                          reason.empty() ? "" : str(" (", printable(reason, 60), ")")));
  }
  if (slurm.nodes.empty()) return unknown("nodes", "scontrol show nodes lists no nodes");
  if (bad.empty()) return ok("nodes", str("all ", fit, " nodes accept jobs"));
  const std::string advice =
      "see scontrol show node NAME; after repair: scontrol update nodename=NAME state=resume";
  const std::string text = str(bad.size(), " of ", bad.size() + static_cast<std::size_t>(fit),
                               " nodes accept no jobs: ", listed(reasons, 4));
  if (fit == 0 || fit < wish.nodes) {
    return fault("nodes", str(text, "; ", fit, " are left", wish.nodes > 0 ? str(" for ", wish.nodes) : ""),
                 advice, bad);
  }
  return warning("nodes", text, advice, bad);
}

/// Returns the finding about Slurm itself; anything but kOk: `slurm` is not filled.
Finding ask_slurm(double deadline_s, SlurmState& slurm) {
  const ProgramRun config = run_program({"scontrol", "show", "config"}, deadline_s);
  if (!config.found) {
    return fault(
        "slurm", "there is no Slurm here: scontrol is not in PATH",
        "run this on a login node; on a single machine no Slurm is needed (echelon train --ranks N)");
  }
  slurm.settings = parse_slurm_settings(config.out);
  if (!config.good() || slurm.settings["SLURM_VERSION"].empty()) {
    return fault("slurm",
                 config.good() ? "scontrol show config shows no SLURM_VERSION" : config.trouble("scontrol"),
                 "scontrol ping shows whether slurmctld is up; check SLURM_CONF and munge on this machine");
  }
  slurm.partitions =
      parse_slurm_records(run_program({"scontrol", "--oneliner", "show", "partition"}, deadline_s).out);
  slurm.nodes = parse_slurm_records(run_program({"scontrol", "--oneliner", "show", "nodes"}, deadline_s).out);
  const ProgramRun mpi = run_program({"srun", "--mpi=list"}, deadline_s);
  if (mpi.good()) slurm.mpi_types = mpi.out + mpi.err;
  const double milliseconds = std::round(config.seconds * 1000);
  Finding answer =
      ok("slurm", str("Slurm ", slurm.settings["SLURM_VERSION"], " answers in ", milliseconds, " ms"));
  answer.values = {{"version", slurm.settings["SLURM_VERSION"]}, {"answer_ms", milliseconds}};
  return answer;
}

}  // namespace

std::vector<Finding> check_slurm(double deadline_s, const Machine& machine, const JobWish& wish,
                                 const std::optional<SavePrediction>& save) {
  SlurmState slurm;
  const Finding answer = ask_slurm(deadline_s, slurm);
  if (answer.verdict != Verdict::kOk) return {answer};
  return {answer,
          check_pmix_plugin(slurm),
          check_pmix_version(slurm, machine),
          check_mpi_default(slurm),
          check_pmix_fence(slurm),
          check_kill_wait(slurm, save),
          check_job_requeue(slurm),
          check_preemption(slurm),
          check_partition(slurm, wish),
          check_nodes(slurm, wish)};
}

}  // namespace echelon::app::doctor
