#include "app/submit/slurm.h"

#include <array>

#include "app/submit/program.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

/// Messages of sbatch, with advice. The first match counts.
struct Advice {
  std::string_view said;
  std::string_view helps;
  Code code = Code::kUsage;
};
constexpr std::array kAdvice{
    Advice{"configuration source", "this machine belongs to no Slurm cluster: submit from one of its nodes",
           Code::kEnvironment},
    Advice{"nable to contact slurm controller", "is the cluster up? `scontrol ping` asks it",
           Code::kEnvironment},
    Advice{"artition",
           "`sinfo --summarize` lists the partitions and their limits: --partition, --time, --nodes"},
    Advice{"ime limit", "`sinfo --format='%P %l'` shows the longest time of each partition: --time"},
    Advice{"account",
           "`sacctmgr show associations user=$USER` lists what you may use: --account, --partition, --qos"},
    Advice{"qos", "`sacctmgr show qos` lists them: --qos"},
    Advice{"QOS", "`sacctmgr show qos` shows its limits: --qos, --nodes, --time"},
    Advice{"generic resource", "`sinfo --format='%N %G'` lists what nodes have: --gpus-per-node, --gres"},
    Advice{"gres", "`sinfo --format='%N %G'` lists what nodes have: --gpus-per-node, --gres"},
    Advice{"eature", "`sinfo --format='%N %f'` lists what nodes offer: --constraint"},
    Advice{"ode configuration is not available",
           "there are not that many nodes, or none with that many CPUs or GPUs for its tasks: "
           "`sinfo --format='%D %c %G %f'`; --nodes, --tasks-per-node, --gpus-per-node, --constraint"},
    Advice{"ode count", "`sinfo --summarize` counts the nodes: --nodes"},
    Advice{"More processors", "`sinfo --format='%N %c'` counts the CPUs of nodes: --nodes, --tasks-per-node"},
    Advice{"node name", "`sinfo --format=%N` lists the nodes: --exclude"},
    Advice{"ependency", "the job it waits for must be known to Slurm: --dependency"},
    Advice{"array", "`scontrol show config | grep MaxArraySize` shows the largest number: --array"},
};

/// "sbatch: error: a\nsbatch: error: b\n" -> "a; b".
std::string one_line(const std::string& messages) {
  std::vector<std::string> parts;
  for (std::string line : split(messages, '\n')) {
    for (const std::string_view start : {"sbatch: ", "error: ", "fatal: ", "allocation failure: "}) {
      if (line.starts_with(start)) line.erase(0, start.size());
    }
    if (!line.empty()) parts.push_back(printable(line, 300));
  }
  return join(parts, "; ");
}

ProgramRun sbatch(const char* option, const std::filesystem::path& script,
                  const std::vector<std::string>& without) {
  ProgramRun result = run_command({"sbatch", option, script.string()}, without);
  if (result.status != 0) throw refusal(result.err + result.out);
  return result;
}

}  // namespace

void require_slurm() {
  for (const char* name : {"sbatch", "scontrol"}) {
    if (!find_program(name).empty()) continue;
    throw Error(Code::kEnvironment, "no ", name,
                " in PATH: this machine cannot submit jobs; go to a node that has Slurm's commands "
                "(a cluster's head or login node), or see the script with --print");
  }
}

Error refusal(const std::string& messages) {
  const std::string said = one_line(messages);
  for (const Advice& advice : kAdvice) {
    if (said.find(advice.said) != said.npos)
      return {advice.code, str("Slurm refuses the job: ", said, "; ", advice.helps)};
  }
  return {Code::kEnvironment, str("Slurm refuses the job: ", said.empty() ? "(it does not say why)" : said,
                                  "; the script is kept: `sbatch --test-only SCRIPT` tries it again")};
}

std::string submit_script(const std::filesystem::path& script, const std::vector<std::string>& without) {
  const std::string out = sbatch("--parsable", script, without).out;
  const std::string job = out.substr(0, out.find_first_of(";\n"));  // "17;cluster"
  if (job.empty() || job.find_first_not_of("0123456789") != job.npos)
    throw Error(Code::kEnvironment, "sbatch named no job: it printed '", printable(out),
                "'; `squeue --me` shows whether the job was taken");
  return job;
}

std::string test_script(const std::filesystem::path& script, const std::vector<std::string>& without) {
  const ProgramRun result = sbatch("--test-only", script, without);
  return result.out + result.err;
}

}  // namespace echelon::submit
