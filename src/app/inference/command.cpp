#include "app/inference/command.h"

#include <filesystem>
#include <vector>

#include "app/launcher/launch.h"
#include "base/str.h"
#include "base/terminal/command_line.h"

namespace echelon::app {
namespace {

/// The command line of one rank: `command` as it was given, without --ranks.
std::vector<std::string> command_of_one_rank(const CLI::App& command) {
  std::vector<std::string> line{std::filesystem::read_symlink("/proc/self/exe").string(), command.get_name()};
  std::vector<std::string> places{"--"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name("--ranks")) continue;
    for (const std::string& value : option->results()) {
      if (option->get_positional()) {
        places.push_back(value);
      } else if (value.empty()) {
        line.insert(line.end(), {option->get_name(), value});
      } else {
        // Joined by '=': mpirun takes a ':' of its own as a separator.
        line.push_back(str(option->get_name(), '=', value));
      }
    }
  }
  line.insert(line.end(), places.begin(), places.end());
  return line;
}

}  // namespace

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
