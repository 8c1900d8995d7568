#include "app/inference/command.h"

#include "app/launcher/launch.h"
#include "app/launcher/step.h"
#include "base/str.h"
#include "base/terminal/command_line.h"

namespace echelon::app {

void add_model_options(CLI::App& command, InferenceRequest& request) {
  command
      .add_option("checkpoint", request.checkpoint,
                  "Step folder, run folder for its newest checkpoint, or Hugging Face folder")
      ->required();
  command.add_option("--base", request.base,
                     "LoRA: folder of the adapters' base, if it is not where the checkpoint says");
}

void add_rank_options(CLI::App& command, InferenceRequest& request, int& ranks, const std::string& what) {
  add_choice(command, "--device", request.device,
             "auto: a GPU for each rank if there is one, else the CPU; cuda_shared: ranks may share a GPU");
  command.add_option("--ranks", ranks, str("Local ranks that share the weights and ", what, " (default 1)"))
      ->check(in_range(1, 4096));
}

int run_ranks(const CLI::App& command, int ranks, InferenceRequest& request,
              const std::function<int()>& as_rank) {
  if (ranks > 1) return launch_local_ranks(ranks, command_of_one_rank(command));
  request.launch = ranks == 0 ? Launch::kPmix : Launch::kSingle;
  return as_rank();
}

}  // namespace echelon::app
