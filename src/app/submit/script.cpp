#include "app/submit/script.h"

#include "app/submit/words.h"
#include "base/error.h"
#include "base/str.h"

namespace echelon::submit {
namespace {

constexpr std::string_view kDirective = "#SBATCH --";

/// In an array, {task} becomes a number when the job runs. Otherwise the word check refuses its braces.
void check_folders(const Options& options, const Place& place) {
  (void)checked(words::kPath, "the current folder", place.work_dir);
  (void)checked(words::kPath, "run.dir",
                options.array.empty() ? place.run_dir : with_task(place.run_dir, "0"));
  (void)checked(words::kPath, "the submission's folder", "/" + place.submission);
}

std::string directives(const Options& options, const Allocation& job, const Place& place) {
  std::string lines;
  const auto add = [&lines](const std::string& text) { lines += str(kDirective, text, "\n"); };
  const auto add_if_given = [&add](const Word& word, const std::string& option, const std::string& text) {
    if (!text.empty()) add(str(option, "=", checked(word, "--" + option, text)));
  };
  add_if_given(words::kJobName, "job-name", place.job_name);
  add(str("chdir=", place.work_dir));
  add(str("output=", with_task(place.run_dir, "%a"), "/", log_name(!options.array.empty())));
  add(str("nodes=", job.nodes + job.spare_nodes));
  add(str("ntasks-per-node=", job.tasks_per_node));
  add_if_given(words::kGres, "gpus-per-node", options.gpus_per_node);
  add_if_given(words::kGres, "gres", options.gres);
  add_if_given(words::kNames, "partition", options.partition);
  add_if_given(words::kName, "account", options.account);
  add_if_given(words::kName, "qos", options.qos);
  add_if_given(words::kConstraint, "constraint", options.constraint);
  add_if_given(words::kNodes, "exclude", options.exclude);
  add(str("time=", slurm_time(job.time_s)));
  add(str("signal=USR2@", job.stop_before_s));
  if (!options.array.empty() && !array_tasks(options.array).empty()) add(str("array=", options.array));
  if (!options.dependency.empty()) {
    check_dependency(options.dependency);
    add(str("dependency=", options.dependency));
  }
  add(options.max_requeues > 0 ? "requeue" : "no-requeue");
  // mem=0, all memory of a node: where Slurm tracks memory, an exclusive job has only the default share of
  // it.
  for (const char* always : {"open-mode=append", "exclusive", "mem=0", "wait-all-nodes=1"}) add(always);
  return lines;
}

bool by_apptainer(const Options& options) {
  const std::string& runtime = options.container_runtime;
  if (runtime.empty()) return options.container_image.ends_with(".sif");
  if (const auto known = choice_of<ContainerRuntime>(runtime)) return *known == ContainerRuntime::kApptainer;
  throw Error(Code::kUsage, "--container-runtime is '", printable(runtime), "'; expected pyxis or apptainer");
}

/// Mounts the folders of job and run at the same paths as outside, and the user's mounts.
std::string mounts(const Options& options, const Place& place) {
  std::string all = str(place.work_dir, ":", place.work_dir);
  if (!(place.run_dir + "/").starts_with(place.work_dir + "/"))
    all += str(",", place.run_dir, ":", place.run_dir);
  if (!options.container_mounts.empty())
    all += "," + checked(words::kMounts, "--container-mounts", options.container_mounts);
  return all;
}

/// What `echelon supervise` is told of a container: its variables, before the command, and options of srun.
struct Container {
  std::string exports;
  std::string srun_options;
  std::string launcher;  ///< in front of the command of a rank
};

Container container(const Options& options, const Allocation& job, const Place& place) {
  if (options.container_image.empty()) {
    if (!options.container_runtime.empty() || !options.container_mounts.empty())
      throw Error(Code::kUsage, "--container-runtime and --container-mounts need --container-image IMAGE");
    return {};
  }
  const std::string image = in_quotes(checked(words::kImage, "--container-image", options.container_image));
  const std::string binds = in_quotes(mounts(options, place));
  const std::string folder = in_quotes(place.work_dir);
  // The image's PMIx may lack methods that Slurm's PMIx offers by default: munge for authentication, shared
  // memory for data. So name methods that both have.
  Container container{.exports = "export PMIX_MCA_psec=native PMIX_MCA_gds=hash\n"};
  if (by_apptainer(options)) {
    container.launcher = str("apptainer exec ", job.gpus_per_node > 0 ? "--nv " : "", "--bind ", binds,
                             " --pwd ", folder, " ", image, " ");
    return container;
  }
  const auto add = [&container](const char* option, const std::string& value) {
    container.srun_options += str("  --srun-option=", option, "=", value, " \\\n");
  };
  add("--container-image", image);
  add("--container-mounts", binds);
  add("--container-workdir", folder);
  return container;
}

/// The last command of the script.
std::string supervise(const Options& options, const Allocation& job, const Place& place,
                      const Container& container) {
  std::string text = str("exec \"$echelon\" supervise --run-dir ", in_quotes(place.run_dir), " \\\n");
  if (place.allow_foreign_folder) text += "  --allow-foreign-folder \\\n";
  text += str("  --max-requeues ", options.max_requeues, " --max-restarts ", options.max_restarts,
              " --spare-nodes ", job.spare_nodes, " --max-same-step ", options.max_same_step, " \\\n");
  const auto fewer = mapped(job.fewer_nodes, [](std::int64_t nodes) { return std::to_string(nodes); });
  if (!fewer.empty()) text += str("  --fewer-nodes ", join(fewer, ","), " \\\n");
  return str(text, container.srun_options, "  -- ", container.launcher,
             in_quotes(checked(words::kProgram, "--program", place.program)), " train ",
             in_quotes(str(place.run_dir, "/", place.submission, "/recipe.yaml")), "\n");
}

}  // namespace

std::string render_script(const Options& options, const Allocation& job, const Place& place) {
  check_folders(options, place);
  const Container parts = container(options, job, place);
  return str(
      "#!/usr/bin/env bash\n# Written by `echelon submit`: ", counted(job.ranks(), "rank"), " on ",
      counted(job.nodes, "node"), job.spare_nodes > 0 ? str(" and ", job.spare_nodes, " spare") : "",
      ". `sbatch` takes it as it is; the recipe it trains lies beside it.\n", directives(options, job, place),
      "set -euo pipefail\n\nechelon=", in_quotes(checked(words::kProgram, "this program", place.supervisor)),
      "\nif [[ ! -x $echelon ]]; then\n"
      "  echo \"echelon: job $SLURM_JOB_ID cannot start: $echelon does not exist on $(uname -n) or is not "
      "executable; submit with one that all nodes see\" >&2\n"
      "  exit 3\nfi\n",
      parts.exports, supervise(options, job, place, parts));
}

std::vector<std::string> overriding_variables(std::string_view script) {
  std::vector<std::string> names{"SBATCH_WAIT"};  // makes sbatch wait for the end of the job
  for (const std::string& line : split(script, '\n')) {
    if (!line.starts_with(kDirective)) continue;
    std::string name = line.substr(kDirective.size(), line.find('=') - kDirective.size());
    if (name == "mem") continue;  // the user's SBATCH_MEM_PER_NODE is to win
    if (name == "time") name = "timelimit";
    if (name == "array") name = "array_inx";
    if (name == "requeue") names.emplace_back("SBATCH_NO_REQUEUE");
    if (name == "no-requeue") names.emplace_back("SBATCH_REQUEUE");
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    names.push_back("SBATCH_" + name);
  }
  return names;
}

std::string log_name(bool array) {
  return array ? "logs/slurm-%A_%a.out" : "logs/slurm-%j.out";
}

}  // namespace echelon::submit
