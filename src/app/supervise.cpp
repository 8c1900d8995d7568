#include <csignal>
#include <memory>

#include "app/commands.h"
#include "app/supervise/supervisor.h"
#include "base/terminal/command_line.h"

namespace echelon::app {

void add_supervise(CLI::App& app, int& status) {
  auto options = std::make_shared<supervise::Options>();
  CLI::App* command = app.add_subcommand(
      "supervise", "Run the ranks of a Slurm job from its batch script, and restart them when some are lost");
  constexpr std::int64_t kMost = 999'999;
  const auto add_number = [&](const char* name, const char* variable, std::int64_t& value, const char* help) {
    command->add_option(name, value, help)
        ->envname(variable)
        ->check(in_range<std::int64_t>(0, kMost))
        ->capture_default_str();
  };
  add_number("--max-requeues", "ECHELON_MAX_REQUEUES", options->max_requeues,
             "How often the job may requeue itself; 0: never");
  add_number("--max-restarts", "ECHELON_MAX_RESTARTS", options->max_restarts,
             "How often lost ranks are started again in place, in one start of the job; 0: never");
  add_number("--spare-nodes", "ECHELON_SPARE_NODES", options->spare_nodes,
             "How many of the job's nodes wait to take the place of lost ones");
  add_number("--max-same-step", "ECHELON_MAX_SAME_STEP", options->max_same_step,
             "Failures in a row at one step that end the job; 0: any number is forgiven");
  auto* run_dir = command->add_option("--run-dir", options->run_dir,
                                      "The run's folder (default: that of the recipe, with "
                                      "run.allow_foreign_folder and --fewer-nodes)");
  command
      ->add_flag("--allow-foreign-folder", options->allow_foreign_folder,
                 "Others may write to the run's folder, as with run.allow_foreign_folder")
      ->needs(run_dir);
  command
      ->add_option("--fewer-nodes", options->fewer_nodes,
                   "With how many nodes, 3,2, the run may continue that has lost some")
      ->delimiter(',')
      ->needs(run_dir);
  command
      ->add_option("--srun-option", options->srun_options,
                   "An option for srun, such as --container-image=IMAGE; may be repeated")
      ->allow_extra_args(false);
  command->add_option("program", options->program, "Behind --: what each rank runs, echelon train RECIPE")
      ->required();
  command->footer(
      "The last command of a job's batch script, which `echelon submit` writes; docs/recovery.md.");
  command->callback([options, &status] {
    // SIGUSR1 asks ranks for a report; `--signal=B:USR1` is not meant to end the job.
    std::signal(SIGUSR1, SIG_IGN);
    status = supervise::Supervisor(*options).run();
  });
}

}  // namespace echelon::app
