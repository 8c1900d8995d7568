#include <algorithm>
#include <array>
#include <string_view>

#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/inference/command.h"
#include "app/launcher/step.h"
#include "app/plugin.h"
#include "base/error.h"
#include "base/terminal/command_line.h"

namespace echelon::app {
namespace {

struct EvaluateArguments {
  EvaluateRequest request;
  std::vector<std::string> files;
  std::string prefix;
  std::vector<std::string> until;  ///< as they are typed
  std::string after;
  int ranks = 0;
};

/// "data/piqa.jsonl.gz" -> "piqa".
std::string name_of(const std::string& file) {
  std::string name = std::filesystem::path(file).filename().string();
  constexpr std::array<std::string_view, 4> kEndings{".gz", ".zst", ".jsonl", ".json"};
  for (const std::string_view ending : kEndings) {
    if (name.size() > ending.size() && name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return name;
}

/// What shells make hard to type: "\\n" is a line feed.
std::string typed(std::string text) {
  constexpr std::string_view kTyped = "\\n";
  for (auto at = text.find(kTyped); at != text.npos; at = text.find(kTyped, at)) text.replace(at, 2, "\n");
  return text;
}

EvaluationOptions tasks_of(const EvaluateArguments& arguments) {
  EvaluationOptions tasks = arguments.request.tasks;
  for (const std::string& file : arguments.files) {
    const std::string name = name_of(file);
    const auto same = std::ranges::find_if(tasks.tasks, [&](const auto& task) { return task.first == name; });
    if (same != tasks.tasks.end()) {
      throw Error(Code::kUsage, "--task '", same->second, "' and '", file, "' have the same name, ", name,
                  ": rename one of them");
    }
    tasks.tasks.emplace_back(name, file);
    for (const std::string& until : arguments.until) {
      if (until.empty())
        throw Error(Code::kUsage,
                    "--until is empty, so every answer would end at once: name a text, such as \\n");
      tasks.until.emplace_back(name, typed(until));
    }
    if (!arguments.prefix.empty()) tasks.prefix.emplace_back(name, arguments.prefix);
    if (!arguments.after.empty()) tasks.after.emplace_back(name, typed(arguments.after));
  }
  return tasks;
}

int evaluate(EvaluateArguments arguments, const CLI::App& command) {
  EvaluateRequest& request = arguments.request;
  int ranks = 0;
  once_per_step([&] {
    ranks = local_ranks(arguments.ranks);
    request.tasks = tasks_of(arguments);
  });
  return run_ranks(command, ranks, request,
                   [&] { return engine_function<EvaluateFunction>("echelon_engine_evaluate")(request); });
}

}  // namespace

void add_evaluate(CLI::App& app, int& status) {
  const auto [command, arguments] = add_command<EvaluateArguments>(
      app, "evaluate",
      "Answer the questions of tasks with the weights of a checkpoint or of a Hugging Face folder, and print "
      "the share of right answers: in one process, or sharded over local ranks or those of the "
      "srun --mpi=pmix or mpirun step it is in",
      [&status](const EvaluateArguments& given, const CLI::App& own) { status = evaluate(given, own); });
  EvaluateRequest& request = arguments.request;
  add_model_options(command, request);
  command
      .add_option("--task", arguments.files,
                  "File of questions, a JSON object on each line: {\"context\", \"choices\", \"answer\"} or "
                  "{\"prompt\", \"answers\"}; may be given several times")
      ->required()
      ->allow_extra_args(false);
  command.add_option("--prefix-file", arguments.prefix,
                     "File whose text stands in front of every question: solved examples");
  command
      .add_option("--limit", request.tasks.limit,
                  "Questions of each task, from the start of its file; 0: all")
      ->check(in_range(0, 1 << 30));
  command.add_option("--tokens", request.tasks.max_new_tokens, "Maximum number of tokens of an answer")
      ->check(in_range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option(
          "--until", arguments.until,
          "Text in front of which a generated answer ends (default \\n, a line feed); may be given several "
          "times")
      ->allow_extra_args(false);
  command.add_option("--after", arguments.after,
                     "Text behind which the answer stands in what is generated, such as ####");
  add_json(command, request.json);
  add_rank_options(command, request, arguments.ranks, "the work");
  add_quiet(command);
}

}  // namespace echelon::app
