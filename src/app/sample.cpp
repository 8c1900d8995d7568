#include <memory>
#include <sstream>

#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/str.h"

namespace echelon::app {
namespace {

constexpr std::uint64_t kLargestPromptFile = std::uint64_t{64} << 20;

struct SampleArguments {
  SampleRequest request;
  std::string prompt_file;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(fs::read_file(path, kLargestPromptFile, Code::kData));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  if (lines.empty())
    throw Error(Code::kData, str("--prompt-file '", path, "' is empty; expected a prompt on each line"));
  return lines;
}

int sample(SampleArguments arguments) {
  SampleRequest& request = arguments.request;
  if (!arguments.prompt_file.empty()) request.prompts = lines_of(arguments.prompt_file);
  if (request.prompts.empty())
    throw Error(Code::kUsage, "--prompt or --prompt-file is required; try 'echelon sample --help'");
  const GenerateOptions& search = request.search;
  if (search.beams > 1 && search.temperature > 0)
    throw Error(Code::kUsage,
                "--beams searches for the likeliest text and --temperature draws: give one of them");
  if (search.temperature == 0 && (search.top_k > 0 || search.top_p < 1))
    throw Error(Code::kUsage, "--top-k and --top-p limit what is drawn: give --temperature too, such as 1");
  return engine_function<SampleFunction>("echelon_engine_sample")(request);
}

void add_search_options(CLI::App& command, GenerateOptions& search) {
  command.add_option("--tokens", search.max_new_tokens, "Tokens to add at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--beams", search.beams, "Continuations a search for the likeliest one keeps")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--temperature", search.temperature, "0 takes the likeliest token; 1 samples as predicted")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--top-k", search.top_k, "Draw among so many likeliest tokens; 0: among all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--top-p", search.top_p, "Draw among the likeliest tokens that have this share together")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--seed", search.seed, "Of the sampling")->capture_default_str();
}

}  // namespace

void add_sample(CLI::App& app, int& status) {
  auto arguments = std::make_shared<SampleArguments>();
  SampleRequest& request = arguments->request;
  CLI::App* command = app.add_subcommand(
      "sample", "Continue prompts, or answer them with an encoder-decoder, with the weights of a checkpoint");
  command
      ->add_option("checkpoint", request.checkpoint, "Step folder, or run folder for its newest checkpoint")
      ->required();
  CLI::Option* prompt =
      command->add_option("--prompt", request.prompts, "Text to continue; may be given several times")
          ->allow_extra_args(false);
  command->add_option("--prompt-file", arguments->prompt_file, "File with a prompt on each line")
      ->excludes(prompt);
  add_search_options(*command, request.search);
  command->callback([arguments, &status] { status = sample(*arguments); });
}

}  // namespace echelon::app
