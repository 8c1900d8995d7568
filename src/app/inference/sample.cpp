#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/inference/command.h"
#include "app/launcher/step.h"
#include "app/plugin.h"
#include "app/prepare_chat.h"
#include "base/error.h"
#include "base/files/fs.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/command_line.h"

namespace echelon::app {
namespace {

constexpr std::uint64_t kLargestPromptFile = std::uint64_t{64} << 20;

struct SampleArguments {
  SampleRequest request;
  bool chats = false;
  ChatRequest chat;  ///< if `chats`
  int ranks = 0;
};

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines =
      split(unix_text(fs::read_file(path, kLargestPromptFile, Code::kData)), '\n');
  if (lines.empty())
    throw Error(Code::kData, "--prompt-file '", path, "' is empty; expected a prompt on each line");
  return lines;
}

void check(const GenerateOptions& search) {
  if (search.beams > 1 && search.temperature > 0)
    throw Error(Code::kUsage,
                "--beams searches for the likeliest text and --temperature samples: give only one of them");
  if (search.temperature == 0 && (search.top_k > 0 || search.top_p < 1))
    throw Error(Code::kUsage, "--top-k and --top-p limit the sampling: give --temperature too, such as 1");
}

/// The checks of a call without prompts.
void require_input(bool chat, int ranks) {
  if (!chat) throw Error(Code::kUsage, "--prompt or --prompt-file is required; try 'echelon sample --help'");
  if (ranks == 1) return;
  throw Error(Code::kUsage,
              "--chat without --prompt or --prompt-file reads standard input, which several ranks cannot "
              "share: give prompts, or use one rank");
}

int sample(SampleArguments arguments, const CLI::App& command) {
  SampleRequest& request = arguments.request;
  int ranks = 0;
  once_per_step([&] {
    ranks = local_ranks(arguments.ranks);
    if (!request.prompt_file.empty()) request.prompts = lines_of(request.prompt_file);
    if (arguments.chats) request.chat = arguments.chat;
    if (!request.chat) refuse_chat_options(command, "--chat");
    if (request.prompts.empty()) require_input(request.chat.has_value(), ranks);
    check(request.search);
  });
  return run_ranks(command, ranks, request,
                   [&] { return engine_function<SampleFunction>("echelon_engine_sample")(request); });
}

void add_search_options(CLI::App& command, GenerateOptions& search) {
  command.add_option("--tokens", search.max_new_tokens, "Maximum number of tokens to add")
      ->check(in_range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--beams", search.beams, "Continuations kept in the search for the likeliest one")
      ->check(in_range(1, 1024))
      ->capture_default_str();
  command
      .add_option("--temperature", search.temperature, "0 takes the likeliest token; 1 samples as predicted")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--top-k", search.top_k, "Sample from this many of the likeliest tokens; 0: from all")
      ->check(in_range(0, 1 << 30))
      ->capture_default_str();
  command
      .add_option("--top-p", search.top_p,
                  "Sample from the likeliest tokens whose probabilities add up to this")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--seed", search.seed, "Seed of the sampling")->capture_default_str();
}

}  // namespace

void add_sample(CLI::App& app, int& status) {
  const auto [command, arguments] = add_command<SampleArguments>(
      app, "sample",
      "Continue prompts, or answer them with an encoder-decoder, with the weights of a checkpoint or of a "
      "Hugging Face folder: in one process, or sharded over local ranks or those of the srun --mpi=pmix or "
      "mpirun step it is in",
      [&status](const SampleArguments& given, const CLI::App& own) { status = sample(given, own); });
  SampleRequest& request = arguments.request;
  add_model_options(command, request);
  CLI::Option* prompt =
      command.add_option("--prompt", request.prompts, "Text to continue; may be given several times")
          ->allow_extra_args(false);
  command.add_option("--prompt-file", request.prompt_file, "File with a prompt on each line")
      ->excludes(prompt);
  command.add_flag("--chat", arguments.chats,
                   "Prompts are a user's turns, rendered with the model's chat template; without prompts, "
                   "each line of standard input is the next turn of one conversation");
  command.add_option("--system", arguments.chat.system, "Text of the system's turn")->group(kChats);
  add_template_options(command, arguments.chat.options);
  add_search_options(command, request.search);
  add_rank_options(command, request, arguments.ranks, "the prompts");
  add_quiet(command);
}

}  // namespace echelon::app
