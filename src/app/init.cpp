#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>

#include "app/commands.h"
#include "app/doctor/machine/machine.h"
#include "app/plan/fit.h"
#include "app/plan/planner.h"
#include "base/error.h"
#include "base/files/new_file.h"
#include "base/number.h"
#include "base/options/choice.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "data/tokens/token_file.h"
#include "data/tokens/token_format.h"
#include "forecast/profile.h"
#include "recipe/draft.h"
#include "recipe/model_presets.h"
#include "recipe/parse.h"
#include "recipe/yaml/writer.h"

namespace echelon::app {

/// What a first recipe is for.
enum class Goal : std::uint8_t { kPretrain, kFineTune, kLora };

}  // namespace echelon::app

template <>
inline constexpr std::array<std::string_view, 3> echelon::kWords<echelon::app::Goal>{"pretrain", "fine-tune",
                                                                                     "lora"};

namespace echelon::app {
namespace {

/// The answers from which a recipe is drafted, and what they imply.
struct Answers {
  Goal goal = Goal::kPretrain;
  std::string model;  ///< pretrain: a preset; else a Hugging Face folder
  std::string data;   ///< folder that `prepare` made: train.tok, and perhaps valid.tok
  PlanTarget machines;
  std::int64_t steps = 0;
  std::int64_t max_positions = 0;  ///< of the model
  std::uint64_t vocab_size = 0;    ///< of the data's tokenizer
  bool has_validation = false;     ///< of the data
};

/// Samples of an optimizer step: about `tokens`, a multiple of the ranks.
std::int64_t batch_of(std::int64_t tokens, std::int64_t seq_len, std::int64_t ranks) {
  const std::int64_t samples = std::max<std::int64_t>(1, tokens / seq_len);
  return ranks * std::max<std::int64_t>(1, (samples + ranks / 2) / ranks);
}

/// Values on which the field agrees, as a place to begin.
struct Usual {
  std::int64_t longest;  ///< tokens
  std::int64_t tokens;   ///< of an optimizer step
  const char* rate;
  const char* decay;
};

Usual usual(Goal goal, bool on_gpu) {
  switch (goal) {
    case Goal::kPretrain: return {4096, on_gpu ? 512 * 1024 : 16 * 1024, "3.0e-4", "0.1"};
    case Goal::kFineTune: return {2048, 64 * 1024, "1.0e-5", "0.0"};
    case Goal::kLora: return {2048, 32 * 1024, "2.0e-4", "0.0"};
  }
  return {};
}

void add_model(const Answers& answers, std::vector<recipe::DraftLine>& lines) {
  if (answers.goal == Goal::kPretrain) {
    lines.push_back(
        {"model.preset", answers.model, "sizes of a published model; `echelon validate` prints them"});
    lines.push_back(
        {"model.vocab_size", std::to_string(answers.vocab_size), "the data's tokenizer has so many tokens"});
    return;
  }
  lines.push_back({"model.from", recipe::quoted(answers.model),
                   "Hugging Face folder: sizes and weights are read from it"});
  if (answers.goal == Goal::kFineTune) return;
  lines.push_back({"lora.rank", "16", "of the matrices that are trained beside the frozen weights"});
  lines.push_back({"lora.alpha", "32", "their product is multiplied by alpha / rank"});
}

void add_data(const Answers& answers, std::int64_t seq_len, std::vector<recipe::DraftLine>& lines) {
  const bool chats = answers.goal != Goal::kPretrain;
  const std::filesystem::path folder = answers.data;
  lines.push_back(
      {"data.kind", chats ? "chat" : "tokens", chats ? "the loss is of what the assistant writes" : ""});
  lines.push_back({"data.path", recipe::quoted(folder / "train.tok"), ""});
  lines.push_back({"data.seq_len", std::to_string(seq_len), "attention's time grows with its square"});
  if (chats) lines.push_back({"data.on_bad_record", "skip", "leaves out conversations that are longer"});
  if (!answers.has_validation) return;
  lines.push_back({"data.validation.path", recipe::quoted(folder / "valid.tok"), ""});
  lines.push_back({"data.validation.batches", "8", "each as large as a step's batch; 0: the whole file"});
}

/// The recipe's keys in the order in which they are written: neighbors with a common section.
std::vector<recipe::DraftLine> draft(const Answers& answers) {
  const bool on_gpu = answers.machines.gpu != "cpu";
  const Usual values = usual(answers.goal, on_gpu);
  const std::int64_t seq_len = std::min(values.longest, answers.max_positions);
  const std::int64_t batch = batch_of(values.tokens, seq_len, answers.machines.job.ranks);
  const auto every = [&](std::int64_t parts) {
    return std::to_string(std::max<std::int64_t>(1, answers.steps / parts));
  };
  std::vector<recipe::DraftLine> lines;
  const std::string name = std::filesystem::path(answers.model).lexically_normal().filename().string();
  lines.push_back({"run.name", recipe::quoted(str(word_of(answers.goal), '-', name.empty() ? "model" : name)),
                   "the run's folder is runs/ and this name"});
  add_model(answers, lines);
  lines.push_back(
      {"shard.strategy", "full_shard", "weights, gradients and optimizer state are split over all ranks"});
  lines.push_back({"precision.preset", on_gpu ? "bf16_fp32_reduce" : "fp32",
                   on_gpu ? "computes in bf16, sums and updates in fp32" : ""});
  lines.push_back({"activation_checkpointing.policy", "none", "full: less memory, a third more arithmetic"});
  add_data(answers, seq_len, lines);
  lines.push_back({"optim.lr", values.rate, "the first thing to try other values of"});
  lines.push_back({"optim.weight_decay", values.decay, ""});
  lines.push_back({"schedule.kind", "warmup_cosine", ""});
  lines.push_back({"schedule.warmup_steps", every(20), ""});
  lines.push_back({"train.steps", std::to_string(answers.steps),
                   str("of ", human_count(static_cast<std::uint64_t>(batch * seq_len)), " tokens at most")});
  lines.push_back(
      {"train.micro_batch_size", "1", "sequences of a rank at a time: memory of activations grows with it"});
  lines.push_back(
      {"train.global_batch_size", std::to_string(batch), "sequences of a step, over all ranks and passes"});
  lines.push_back({"train.clip_grad_norm", "1.0", ""});
  if (answers.has_validation) lines.push_back({"train.validate_every_steps", every(10), ""});
  lines.push_back(
      {"checkpoint.every_steps", every(10), "what a failure costs at most; stops save by themselves"});
  lines.push_back({"checkpoint.keep_last", "2", ""});
  lines.push_back({"metrics.every_steps", every(100), ""});
  return lines;
}

struct InitArguments {
  std::string output;
  std::string goal;
  std::string model;
  std::string data;
  std::string machines;
  std::string steps;
};

LoadedRecipe parse(const std::string& name, const std::string& text,
                   const std::vector<std::string>& overrides = {}) {
  return recipe::parse_recipe_text(name, text, overrides,
                                   [](const std::filesystem::path&) { return std::string(); });
}

/// Presets of language models that read one text, which token files train.
std::vector<std::string> presets() {
  std::vector<std::string> names;
  for (const recipe::ModelPreset& preset : recipe::model_presets())
    if (!takes_images(preset.model.kind) && !takes_pairs(preset.model.kind)) names.push_back(preset.name);
  return names;
}

/// "2 x 8 h100", "2x8 h100", "1 x 2 cpu".
PlanTarget read_machines(const std::string& text) {
  std::istringstream in(text);
  PlanTarget machines;
  int nodes = 0;
  int per_node = 0;
  char times = 0;
  std::string more;
  in >> nodes >> times >> per_node >> machines.gpu;
  if (!in || in >> more || times != 'x' || nodes < 1 || per_node < 1 || nodes > 100'000 || per_node > 1024)
    throw Error(Code::kUsage, '\'', printable(text),
                "'; expected NODES x RANKS DEVICE, such as 2 x 8 h100, or 1 x 2 cpu");
  if (machines.gpu != "cpu") machines.gpu = forecast::find_device(machines.gpu).name;
  machines.job = {.ranks = nodes * per_node, .ranks_per_node = per_node};
  return machines;
}

/// A question: its option, what is asked, and what takes the answer, which throws Error(kUsage) if it cannot.
struct Question {
  const char* option;
  std::string text;
  std::string standard;  ///< the answer if none is given; empty: there is none
  std::function<void(const std::string&)> take;
};

/// Takes `given`, else asks until an answer is taken. Where nobody sits at a terminal, the first bad answer
/// is the last.
void ask(const Question& question, const std::string& given) {
  const auto take = [&question](const std::string& answer) {
    try {
      question.take(answer);
    } catch (const Error& error) {
      throw Error(error.code(), question.option, ": ", error.what());
    }
  };
  if (!given.empty()) return take(given);
  while (true) {
    std::cerr << question.text << (question.standard.empty() ? "" : str(" [", question.standard, "]")) << ": "
              << std::flush;
    std::string answer;
    if (!std::getline(std::cin, answer)) {
      std::cerr << '\n';
      throw Error(Code::kUsage, "init: no answer; expected one on standard input, or the option ",
                  question.option);
    }
    if (answer.empty()) answer = question.standard;
    try {
      return take(answer);
    } catch (const Error& error) {
      if (isatty(STDIN_FILENO) == 0) throw;
      std::cerr << error.what() << '\n';
    }
  }
}

void take_model(Answers& answers, const std::string& answer) {
  const bool preset = answers.goal == Goal::kPretrain;
  if (preset && recipe::find_model_preset(answer) == nullptr) {
    const std::string near = nearest(answer, presets());
    throw Error(Code::kUsage, "no preset '", printable(answer), "'; ",
                near.empty() ? "there are: " + join(presets(), ", ") : str("did you mean ", near, "?"));
  }
  answers.model = answer;
  const LoadedRecipe loaded =
      parse("init", recipe::yaml_of({{preset ? "model.preset" : "model.from", answer, ""},
                                     {"data.kind", "synthetic_tokens", ""},
                                     {"data.seq_len", "1", ""}},
                                    ""));
  answers.max_positions = loaded.recipe.model.max_positions;
}

void take_data(Answers& answers, const std::string& answer) {
  const std::filesystem::path folder = answer;
  if (const auto mixture = folder / "mixture.yaml"; std::filesystem::exists(mixture))
    throw Error(Code::kUsage, '\'', printable(answer),
                "' is a mixture; name the folder of one of its sources, and then write include: ",
                printable(mixture.string()), " in place of data.path and data.validation.path");
  if (!std::filesystem::exists(folder / "train.tok"))
    throw Error(Code::kUsage, "there is no '", printable((folder / "train.tok").string()),
                "'; make it: echelon prepare SOURCES --output ", printable(answer),
                answers.goal == Goal::kPretrain
                    ? " --train-tokenizer 32000"
                    : str(" --format chat --tokenizer ", printable(answers.model)));
  const TokenFileHeader header = TokenFile(folder / "train.tok").header();
  const bool chats = answers.goal != Goal::kPretrain;
  if (header.version() != (chats ? kTokenChatsVersion : kTokenFileVersion))
    throw Error(Code::kUsage, '\'', printable((folder / "train.tok").string()), "' holds ",
                header.holds_pairs()         ? "pairs"
                : header.holds_preferences() ? "pairs of answers"
                : header.holds_chats()       ? "chats"
                                             : "text",
                "; expected ", chats ? "chats, as echelon prepare --format chat makes them" : "text");
  answers.data = answer;
  answers.vocab_size = header.vocab_size;
  answers.has_validation = std::filesystem::exists(folder / "valid.tok");
}

Answers ask_all(const InitArguments& given) {
  Answers answers;
  ask({"--goal",
       "What to do: pretrain (a model from scratch), fine-tune (a model on chats), lora (the same with "
       "adapters)",
       "pretrain",
       [&](const std::string& answer) {
         const std::optional<Goal> goal = choice_of<Goal>(answer);
         if (!goal)
           throw Error(Code::kUsage, '\'', printable(answer), "'; expected pretrain, fine-tune or lora");
         answers.goal = *goal;
       }},
      given.goal);
  const bool preset = answers.goal == Goal::kPretrain;
  ask({"--model", preset ? str("Which model: ", join(presets(), ", ")) : "The model's Hugging Face folder",
       "", [&](const std::string& answer) { take_model(answers, answer); }},
      given.model);
  ask({"--data", "The folder that `echelon prepare` made", "",
       [&](const std::string& answer) { take_data(answers, answer); }},
      given.data);
  ask({"--machines",
       str("Nodes x ranks on each, and the device (cpu, ", join(forecast::device_names(), ", "),
           "), such as 2 x 8 h100"),
       "1 x 1 cpu", [&](const std::string& answer) { answers.machines = read_machines(answer); }},
      given.machines);
  ask({"--steps", "Optimizer steps", "1000",
       [&](const std::string& answer) {
         const std::string problem = read_integer(answer, answers.steps);
         if (!problem.empty() || answers.steps < 1)
           throw Error(Code::kUsage, '\'', printable(answer), "' ", problem.empty() ? "is below 1" : problem);
       }},
      given.steps);
  return answers;
}

/// The changes with which the recipe fits into the memory of a rank and takes the shortest steps.
std::vector<std::string> fitting(PlanTarget machines, const std::string& text) {
  if (machines.gpu == "cpu")  // as much as this machine has
    machines.memory_bytes =
        static_cast<double>(doctor::Machine("/").memory_bytes().value_or(0)) / machines.job.ranks_per_node;
  const FitResult result = find_fit(Planner(machines), [&](const std::vector<std::string>& overrides) {
    return parse("init", text, overrides).recipe;
  });
  if (result.fitting.empty())
    throw Error(Code::kUsage,
                "init: no change of the recipe makes it fit; nothing was written\n" + describe(result));
  return result.fitting.front().overrides;
}

void init(const InitArguments& arguments) {
  if (std::filesystem::exists(std::filesystem::symlink_status(arguments.output)))
    throw Error(Code::kUsage, "init: '", printable(arguments.output),
                "' exists and is not overwritten; name another file");
  const Answers answers = ask_all(arguments);
  std::vector<recipe::DraftLine> lines = draft(answers);
  recipe::set_values(fitting(answers.machines, recipe::yaml_of(lines, "")), lines);
  const forecast::JobShape& job = answers.machines.job;
  const std::string start = job.nodes() == 1
                                ? str("echelon train ", arguments.output, " --ranks ", job.ranks_per_node)
                                : str("echelon submit ", arguments.output, " --nodes ", job.nodes(),
                                      " --tasks-per-node ", job.ranks_per_node);
  const std::string text = recipe::yaml_of(
      lines, str("# For ", job.nodes(), " x ", job.ranks_per_node, " ranks on ", answers.machines.gpu,
                 ". Every key: docs/recipe.md, or echelon validate --reference\n#   ", start, "\n"));
  (void)parse(arguments.output, text);
  fs::publish_file(arguments.output, text, Code::kUsage);
  std::cout << arguments.output << '\n';
  std::cerr << "next:  echelon doctor recipe " << arguments.output
            << "    # is everything here that it needs?\n       " << start << '\n';
}

}  // namespace

void add_init(CLI::App& app, int&) {
  const auto [command, arguments] = add_command<InitArguments>(
      app, "init", "Write a first recipe that fits your machines, from the answers to five questions", init);
  command.add_option("output", arguments.output, "New file")->required();
  command.add_option("--goal", arguments.goal, "What no option says is asked")
      ->check(CLI::IsMember(std::vector<std::string>(kWords<Goal>.begin(), kWords<Goal>.end())));
  command.add_option("--model", arguments.model, "A preset; for fine-tune and lora a Hugging Face folder");
  command.add_option("--data", arguments.data, "Folder that `echelon prepare` made");
  command.add_option("--machines", arguments.machines,
                     "Nodes x ranks on each and their device, such as '2 x 8 h100' or '1 x 2 cpu'");
  command.add_option("--steps", arguments.steps, "Optimizer steps");
}

}  // namespace echelon::app
