#include <algorithm>
#include <iostream>
#include <string>

#include "app/commands.h"
#include "app/doctor/checks/start_checks.h"
#include "app/early_checks.h"
#include "app/model_check.h"
#include "app/plan/fit.h"
#include "app/plan/planner.h"
#include "app/submit/follow.h"
#include "app/submit/slurm.h"
#include "app/submit/submission.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/standard_output.h"
#include "forecast/profile.h"
#include "recipe/compare.h"
#include "recipe/parse.h"

namespace echelon::app {
namespace {

struct SubmitArguments {
  submit::Options options;
  bool print = false;
  bool test_only = false;
  bool wait = false;
  bool anyway = false;
  std::string gpu;
  double memory_bytes = 0;
};

void print(const std::string& text) {
  std::cout << text;
  finish_standard_output();  // an output error must be found before anything is submitted
}

/// The first line is the job number alone, for scripts.
void print_job(const submit::Submission& submission, const std::string& job) {
  print(str(job, "\nscript   ", submission.script_path().string(), "\nlog      tail -F ",
            submission.log_path(job).string(), "\nstate    squeue --jobs=", job, "\ncancel   scancel ", job,
            "\n"));
  for (std::size_t n = 0; n < submission.swept.size(); ++n)
    print(str("run      ", submission.runs[n].dir.string(), "  ", submission.swept[n], "\n"));
}

/// The device called `name`, or the one with most memory of "a100-40g" and "a100-80g" for "a100": what does
/// not fit it fits none of them. Empty if there is none.
std::string largest_of(const std::string& name) {
  std::string largest;
  double bytes = 0;
  for (const std::string& known : forecast::device_names()) {
    if (known != name && !known.starts_with(name + '-')) continue;
    const double memory = forecast::find_device(known).memory_bytes;
    if (memory > bytes) largest = known;
    bytes = std::max(bytes, memory);
  }
  return largest;
}

Recipe with(const LoadedRecipe& loaded, const std::vector<std::string>& overrides) {
  const auto includes_nothing = [](const std::filesystem::path&) { return std::string(); };
  return recipe::parse_recipe_text("recipe", to_yaml(loaded.recipe), overrides, includes_nothing).recipe;
}

std::string advice(const Planner& planner, const LoadedRecipe& loaded) {
  const FitResult result =
      find_fit(planner, [&](const std::vector<std::string>& added) { return with(loaded, added); });
  if (!result.fitting.empty()) {
    const Proposal& best = result.fitting.front();
    return str("this fits: ", join(best.overrides, " "), host_memory(best));
  }
  if (result.more_nodes) {
    return str("this fits, on ", result.more_nodes->plan.options.job.nodes(),
               " nodes: ", join(result.more_nodes->overrides, " "), host_memory(*result.more_nodes));
  }
  return "no change that `echelon plan --fit` tries fits";
}

/// The device in "h100:8" or "gpu:h100:8,lustre" (options of Slurm), if it is one whose profile is known;
/// else empty. A name without the size of its memory ("a100") is the one with most; one that Slurm found by
/// itself ("nvidia_h100_80gb_hbm3") is known, too.
std::string device_in(const std::string& gpus_per_node, const std::string& gres) {
  for (std::string text : {gpus_per_node, gres}) {
    std::ranges::replace(text, ':', ',');
    for (const std::string& word : split(in_lower_case(text), ',')) {
      std::string device = largest_of(word);
      if (device.empty()) device = forecast::device_of_gpu(word);
      if (!device.empty()) return device;
    }
  }
  return "";
}

/// Throws Error(kUsage), with the best change that fits, for a recipe that a rank's memory cannot hold on
/// these machines. Does nothing where no limit is known; without the engine it warns that nothing was
/// checked.
void require_fit(const LoadedRecipe& loaded, const PlanTarget& target) {
  if (target.gpu == "cpu" && target.memory_bytes == 0) return;
  try {
    const Planner planner(target);
    const Plan plan = planner.plan(loaded.recipe);
    if (plan.outlook.fits()) return;
    throw Error(Code::kUsage, "the recipe does not fit: a rank needs ", human_bytes(plan.outlook.peak_bytes),
                " of ", human_bytes(plan.outlook.limit_bytes), " (", plan.title.device, "); ",
                advice(planner, loaded), ". --submit-anyway submits it all the same");
  } catch (const Error& error) {
    if (error.code() != Code::kEnvironment) throw;
    log::warn(str("echelon: whether the recipe fits was not checked: ", error.what()));
  }
}

/// What the ranks will run on, as far as the command line says. Throws Error(kUsage) for a limit of memory
/// on GPUs that are not known: a plan of CPU ranks would not be one of theirs.
PlanTarget target_of(const SubmitArguments& arguments, const submit::Allocation& job) {
  const submit::Options& options = arguments.options;
  const std::string device =
      arguments.gpu.empty() ? device_in(options.gpus_per_node, options.gres) : arguments.gpu;
  if (device.empty() && job.gpus_per_node > 0 && arguments.memory_bytes > 0)
    throw Error(Code::kUsage, "--memory: which GPUs the nodes have is not known; add --gpu DEVICE (",
                join(forecast::device_names(), ", "), ")");
  const auto per_node = static_cast<int>(job.tasks_per_node);
  return {.gpu = device.empty() ? "cpu" : device,
          .job = {.ranks = static_cast<int>(job.nodes) * per_node, .ranks_per_node = per_node},
          .memory_bytes = arguments.memory_bytes};
}

/// Tasks of an array may differ in their data, those of a sweep in what memory depends on.
class StartCheck {
 public:
  void look_at(const LoadedRecipe& loaded) {
    const auto differ = [](const recipe::Change& change) {
      return !change.key.starts_with("run.") && !change.key.starts_with("schedule.") &&
             change.key != "optim.lr";
    };
    if (!looked_at_.empty()) {
      const auto changes = recipe::changes(looked_at_.back().recipe, loaded.recipe);
      if (std::ranges::none_of(changes, differ)) return;
    }
    looked_at_.push_back(loaded);
    add(doctor::faults_of_data(loaded.recipe));
    if (doctor::Finding weights = examine_initial_weights(loaded.recipe);
        weights.verdict == doctor::Verdict::kFault)
      add({std::move(weights)});
  }

  /// Throws Error(kUsage) for a job that could not start.
  void require(const SubmitArguments& arguments, const submit::Allocation& job) {
    const PlanTarget target = target_of(arguments, job);
    for (const LoadedRecipe& loaded : looked_at_) require_fit(loaded, target);
    add(doctor::faults_of_size(looked_at_.front().recipe, target.job.ranks, target.job.ranks_per_node,
                               arguments.options.partition, job.gpus_per_node == 0));
    if (faults_.empty()) return;
    const std::string all = join(faults_, "; ");
    // What an earlier job makes or a container holds cannot be seen from here.
    if (arguments.print || !arguments.options.dependency.empty() ||
        !arguments.options.container_image.empty())
      return log::warn(str("echelon: as things are here, the job could not start: ", all));
    throw Error(Code::kUsage, "the job could not start: ", all,
                "; --submit-anyway submits it all the same, for what only its nodes have");
  }

 private:
  void add(const std::vector<doctor::Finding>& faults) {
    for (const doctor::Finding& fault : faults) {
      const std::string text = str(fault.text, "; ", fault.advice);
      if (std::ranges::find(faults_, text) == faults_.end()) faults_.push_back(text);
    }
  }

  std::vector<LoadedRecipe> looked_at_;
  std::vector<std::string> faults_;
};

int submit_job(const SubmitArguments& arguments) {
  if (arguments.wait && !arguments.options.array.empty())
    throw Error(Code::kUsage, "--wait follows one job: leave it out with --array");
  StartCheck start;
  const submit::Submission submission = submit::prepare(arguments.options, [&](const LoadedRecipe& loaded) {
    check_against_model(loaded);
    if (!arguments.anyway) start.look_at(loaded);
  });
  if (!arguments.anyway) start.require(arguments, submission.job);
  if (!arguments.print) submit::require_slurm();
  if (!submission.job.note.empty()) log::warn("echelon: " + submission.job.note);
  submit::keep(submission);
  if (arguments.print) {
    print(submission.script);
    log::info(str("echelon: kept, and not submitted: sbatch ", submission.script_path().string()));
    return 0;
  }
  const std::vector<std::string> without = submit::overriding_variables(submission.script);
  if (arguments.test_only) {
    print(submit::test_script(submission.script_path(), without));
    return 0;
  }
  const std::string job = submit::submit_script(submission.script_path(), without);
  print_job(submission, job);
  return arguments.wait ? submit::follow_job(job, submission.log_path(job)) : 0;
}

void add_job_options(CLI::App& command, submit::Options& options) {
  command.add_option("--nodes,-N", options.nodes, "Nodes of the job")
      ->check(in_range(1, 100'000))
      ->capture_default_str();
  command
      .add_option("--tasks-per-node,--ntasks-per-node", options.tasks_per_node,
                  "Ranks on each node (default: one for each GPU, else 1)")
      ->check(in_range(1, 1024));
  command.add_option("--gpus-per-node", options.gpus_per_node, "GPUs of each node: 8 or TYPE:8");
  command.add_option("--gres", options.gres, "Generic resources of each node, such as gpu:h100:8");
  command.add_option("--partition,-p", options.partition, "Partition, or several with commas");
  command.add_option("--account,-A", options.account, "Account to charge");
  command.add_option("--qos,-q", options.qos, "Quality of service");
  command.add_option("--time,-t", options.time, "Time limit, as for sbatch: minutes, H:M:S or D-H:M:S")
      ->capture_default_str();
  command.add_option("--constraint,-C", options.constraint, "Features that nodes must have");
  command.add_option("--exclude,-x", options.exclude, "Nodes not to use");
  command.add_option("--array,-a", options.array,
                     "Job array: 0-9%1 continues one run, one task after the other; 0-3 trains one run per "
                     "task, with {task} in overrides: run.dir=runs/try-{task} run.seed={task}; "
                     "optim.lr=1e-3,3e-3,1e-2 trains one run per value, in run.dir-0, run.dir-1, ...");
  command.add_option("--dependency,-d", options.dependency, "Start after other jobs, such as afterok:17");
  command.add_option("--job-name,-J", options.job_name, "Name of the job (default: run.name)");
  command.add_option("--stop-before", options.stop_before_s,
                     "Seconds before the end of --time at which Slurm signals the ranks to save and stop; a "
                     "last resort, because ranks that know when their time ends stop by themselves (default "
                     "60, at most a quarter of --time)");
  command
      .add_option("--max-requeues", options.max_requeues, "How often the job may requeue itself; 0: never")
      ->capture_default_str();
  command
      .add_option("--spare-nodes", options.spare_nodes,
                  "Nodes beside --nodes that take the place of lost ones")
      ->capture_default_str();
  command
      .add_option("--max-restarts", options.max_restarts,
                  "How often lost ranks are started again on the nodes that the job still has, in one start "
                  "of the job; 0: never, it is requeued at once")
      ->capture_default_str();
  command
      .add_option("--max-same-step", options.max_same_step,
                  "Failures in a row at one step that end the job, because they are not the nodes' fault; 0: "
                  "any number is forgiven")
      ->capture_default_str();
}

void add_container_options(CLI::App& command, submit::Options& options) {
  command.add_option("--container-image", options.container_image,
                     "Run the ranks in this image: a name or file for enroot, or a .sif file");
  command.add_option("--container-runtime", options.container_runtime,
                     "pyxis or apptainer (default: apptainer for .sif files)");
  command.add_option("--container-mounts", options.container_mounts,
                     "FROM:TO[:ro],...: folders in the container besides this one and the run's");
  command.add_option("--program", options.program,
                     "Program that each rank runs (default: this program; in a container: echelon)");
}

}  // namespace

void add_submit(CLI::App& app, int& status) {
  const auto [command, arguments] = add_command<SubmitArguments>(
      app, "submit", "Check a recipe against an allocation, write the job's script, and hand it to Slurm",
      [&status](const SubmitArguments& given) { status = submit_job(given); });
  command
      .add_option("recipe", arguments.options.recipe, "YAML file, or a name that `echelon recipes ls` prints")
      ->required();
  command.add_option("overrides", arguments.options.overrides,
                     "key.path=value, e.g. optim.lr=3e-4; later ones win");
  add_job_options(command, arguments.options);
  add_container_options(command, arguments.options);
  command.add_option(
      "--gpu", arguments.gpu,
      "Device of the nodes, as `echelon plan` knows it, to check that the recipe fits (default: "
      "the type in --gpus-per-node or --gres)");
  add_bytes(command, "--memory", arguments.memory_bytes,
            "Memory of a rank for that check, such as 16GiB (default: the device's; CPU ranks: no check)");
  command.add_flag("--submit-anyway", arguments.anyway,
                   "Submit a recipe all the same that does not fit, or whose files only the nodes have");
  auto* show = command.add_flag("--print", arguments.print, "Print the script and keep it; submit nothing");
  auto* test = command.add_flag("--test-only", arguments.test_only,
                                "Let Slurm say when and where the job would start; submit nothing");
  auto* wait = command.add_flag("--wait", arguments.wait,
                                "Follow the job's log to its end and exit with its exit code");
  add_quiet(command);
  show->excludes(test)->excludes(wait);
  test->excludes(wait);
  command.footer(
      "The first line of output is the job's number. The script and the recipe as it was resolved are kept "
      "in the\nrun's folder, under submissions/. See docs/submit.md.");
}

}  // namespace echelon::app
