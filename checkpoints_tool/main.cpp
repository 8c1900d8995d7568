#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <optional>

#include "base/caught.h"
#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "base/terminal/command_line.h"
#include "base/terminal/completion.h"
#include "base/terminal/machine_output.h"
#include "base/terminal/manual_page.h"
#include "base/terminal/standard_output.h"
#include "base/terminal/status_line.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_index.h"
#include "checkpoint/hdf5/h5_layout.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/hugging_face_folder.h"
#include "checkpoints_tool/interrupt.h"

namespace echelon::tool {
namespace {

constexpr int kDiffer = 1;  // as of diff(1)
constexpr const char* kCheckpointHelp = "Step folder, or a run folder for its newest commit";

void add_ls(CLI::App& app) {
  const auto [command, options] =
      add_command<LsOptions>(app, "ls", "List the checkpoints of a run", list_checkpoints);
  command.add_option("RUN", options.folder, "Run folder, its checkpoints folder, or one step folder")
      ->required();
  add_json(command, options.json);
}

void add_inspect(CLI::App& app) {
  const auto [command, options] = add_command<InspectOptions>(
      app, "inspect", "Show what a checkpoint holds, without reading tensors", inspect);
  command.add_option("CKPT", options.checkpoint, kCheckpointHelp)->required();
  add_json(command, options.json);
}

void add_verify(CLI::App& app) {
  const auto [command, options] = add_command<VerifyOptions>(
      app, "verify", "Check that a checkpoint is complete and undamaged; list all damage", verify_checkpoint);
  command.add_option("CKPT", options.checkpoint, kCheckpointHelp)->required();
  CLI::Option* quick =
      command.add_flag("--quick", options.quick, "Sizes, indexes and coverage only, no tensor bytes");
  command.add_flag("--deep", options.deep, "Also every byte against its checksum (default)")->excludes(quick);
  add_json(command, options.json);
  add_quiet(command);
}

void add_shard_size(CLI::App& command, std::optional<std::string>& size) {
  command
      .add_option("--max-shard-size", size,
                  "Size above which a safetensors output is split into several files")
      ->default_str(kMaxShardSize);
}

void add_limits(CLI::App& command, ConversionLimits& limits) {
  command.add_option("--mem", limits.memory, "Memory the program may use, whatever the size of the model")
      ->capture_default_str();
  command.add_flag("--allow-foreign-folder", limits.allow_foreign_folder,
                   "Continue in an unfinished output's folder that belongs to another user, who can then "
                   "change the output");
  command.add_option("--jobs", limits.jobs, "Threads that move data; 0 means one for each core, at most 4")
      ->check(in_range(0, 256))
      ->capture_default_str();
}

void add_type(CLI::App& command, families::OutputType& type, const char* help) {
  add_choice(command, "--dtype", type, help)->default_str(std::string(word_of(type)));
}

void add_consolidate(CLI::App& app) {
  const auto [command, options] =
      add_command<ConsolidateOptions>(app, "consolidate", "Join the shards into whole tensors", consolidate);
  command.add_option("CKPT", options.checkpoint, kCheckpointHelp)->required();
  add_choice(command, "--to", options.to, "hdf5: one file; safetensors: a folder that transformers opens")
      ->required();
  command.add_option("-o,--output", options.output, "File or folder to make; must not exist")->required();
  add_type(command, options.dtype, "Type of the model's floating-point tensors");
  command.add_flag("--optimizer", options.optimizer, "Also the optimizer's and all other tensors");
  add_shard_size(command, options.max_shard_size);
  add_limits(command, options.limits);
  add_quiet(command);
}

void add_export(CLI::App& app) {
  const auto [command, options] = add_command<ExportOptions>(
      app, "export", "Write the model as a Hugging Face folder; of a run with LoRA, the adapter as peft's",
      export_weights);
  command.add_option("CKPT", options.checkpoint, kCheckpointHelp)->required();
  command.add_option("-o,--output", options.output, "Folder to make; must not exist")->required();
  add_type(command, options.dtype, "Type of the weights");
  command.add_flag("--ema", options.ema, "The averaged weights instead of the last ones");
  command.add_flag("--merge", options.merge, "LoRA: the whole model, adapters added to its weights");
  command.add_option("--base", options.base,
                     "LoRA: name or folder of the base, for peft to find it by (base_model_name_or_path); "
                     "with --merge its folder, if it is not where the checkpoint says");
  add_shard_size(command, options.max_shard_size);
  add_limits(command, options.limits);
  add_quiet(command);
}

void add_view(CLI::App& app) {
  const auto [command, options] = add_command<ViewOptions>(
      app, "view", "Make a small HDF5 file that shows every tensor whole; copies nothing", make_view);
  command.add_option("CKPT", options.checkpoint, kCheckpointHelp)->required();
  command.add_option("-o,--output", options.output, "File to make; must not exist")->required();
  add_quiet(command);
}

void add_salvage(CLI::App& app) {
  const auto [command, options] = add_command<SalvageOptions>(
      app, "salvage", "Find the intact tensors in a step folder that is damaged or was never committed",
      salvage_tensors);
  command.add_option("DIR", options.folder, "Step folder")->required()->check(CLI::ExistingDirectory);
  CLI::Option* output =
      command.add_option("-o,--output", options.output,
                         "HDF5 file for the intact tensors, with a report beside it; must not exist");
  add_json(command, options.json);
  add_limits(command, options.limits);
  for (const char* of_output : {"--mem", "--jobs", "--allow-foreign-folder"})
    command.get_option(of_output)->needs(output);
  add_quiet(command);
}

void add_diff(CLI::App& app, int& exit_code) {
  const auto [command, options] = add_command<DiffOptions>(
      app, "diff", "Compare the tensors of two checkpoints, without reading them; exits 1 when they differ",
      [&exit_code](const DiffOptions& given) { exit_code = diff_checkpoints(given) ? 0 : kDiffer; });
  command.add_option("A", options.a, kCheckpointHelp)->required();
  command.add_option("B", options.b, kCheckpointHelp)->required();
  command.add_flag("--data", options.data, "Read the tensors that differ and report by how much");
  add_json(command, options.json);
  add_quiet(command);
}

CLI::Option* add_world(CLI::App& command, int& world) {
  return command.add_option("--world", world, "Shards to write; any number of ranks can load them")
      ->check(in_range(1, checkpoint::kMaxRanks))
      ->capture_default_str();
}

void add_import(CLI::App& app) {
  const auto [command, options] = add_command<ImportOptions>(
      app, "import",
      "Make a checkpoint of weights in Hugging Face's safetensors format; with --base, of "
      "a LoRA adapter of peft",
      import_weights);
  command
      .add_option("DIR", options.input,
                  "Hugging Face folder, or a .safetensors file beside a config.json; or peft's folder of an "
                  "adapter")
      ->required();
  command.add_option("--base", options.base,
                     "LoRA: the adapter's base, a checkpoint or a Hugging Face folder; the new checkpoint "
                     "names it and does not copy it");
  command.add_option("-o,--output", options.output, "Folder to make; must not exist")->required();
  add_type(command, options.dtype, "Type of the weights; the trainer's own is fp32");
  add_world(command, options.world);
  add_quiet(command);
}

void add_reshard(CLI::App& app) {
  const auto [command, options] = add_command<ReshardOptions>(
      app, "reshard", "Rewrite a checkpoint with a different number of shards", reshard);
  command.add_option("CKPT", options.checkpoint, kCheckpointHelp)->required();
  add_world(command, options.world)->required();
  command.add_option("-o,--output", options.output, "Folder to make; must not exist")->required();
  add_quiet(command);
}

void add_removal(CLI::App& command, GcOptions& options) {
  command.add_option("RUN", options.run, "Run folder or its checkpoints folder")->required();
  CLI::Option* carry_out =
      command.add_flag("--yes", options.yes, "Remove; without it only list what would be removed");
  command
      .add_flag_function(
          "--dry-run", [](std::int64_t) {}, "Only list what would be removed (default)")
      ->excludes(carry_out);
  add_json(command, options.json);
}

void add_prune(CLI::App& app) {
  const auto [command, options] =
      add_command<PruneOptions>(app, "prune", "Remove old checkpoints of a run", prune_run);
  add_removal(command, options);
  command
      .add_option(
          "--keep-last", options.keep.keep_last,
          "Number of newest checkpoints to keep, at least 2; 0 means all. They are read whole first: what "
          "is damaged does not count")
      ->check(in_range(std::int64_t{0}, checkpoint::kMaxStep))
      ->capture_default_str();
  command
      .add_option("--keep-every", options.keep.keep_every,
                  "Also keep the steps that are multiples of this; 0 means none")
      ->check(in_range(std::int64_t{0}, checkpoint::kMaxStep))
      ->capture_default_str();
  command
      .add_option("--keep-step", options.keep.keep_steps,
                  "Also keep this step, of which there is a checkpoint; may be given several times")
      ->check(in_range(std::int64_t{0}, checkpoint::kMaxStep));
  command.add_flag("--quick", options.quick,
                   "Read no tensor: a checkpoint whose files have the right sizes counts as intact");
  add_quiet(command);
}

void add_gc(CLI::App& app) {
  const auto [command, options] = add_command<GcOptions>(
      app, "gc", "Remove what interrupted saves and commands left behind", collect_garbage);
  add_removal(command, options);
}

int fail(int code, const std::string& text) {
  status_line::print_above(str("echelon-ckpt: ", terminal_text(text), '\n'));
  return code;
}

/// `code`, unless the output could not be written completely.
int after_output(int code) {
  try {
    if (code <= kDiffer) finish_standard_output();
    return code;
  } catch (const Error& e) {
    return fail(static_cast<int>(e.code()), e.what());
  }
}

int run(int argc, char** argv) {
  MachineOutput output({argv + 1, argv + argc});
  const auto refuse = [&output](Code code, const std::string& text) {
    output.report(Error(code, text));
    return fail(static_cast<int>(code), text);
  };
  CLI::App app("List, check and convert Echelon checkpoints. Needs no GPU.", "echelon-ckpt");
  app.set_version_flag(
      "--version", str("echelon-ckpt " ECHELON_VERSION " (checkpoint format ", checkpoint::kFormatMajor, '.',
                       checkpoint::kFormatMinor, ", HDF5 ", checkpoint::h5_version(), ')'));
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 (diff) they differ, 2 usage, 3 environment, 5 the checkpoint is damaged, "
      "uncommitted or cannot be read or written.");
  add_ls(app);
  add_inspect(app);
  add_verify(app);
  add_consolidate(app);
  add_export(app);
  add_view(app);
  add_salvage(app);
  int exit_code = 0;
  add_diff(app, exit_code);
  add_import(app);
  add_reshard(app);
  add_prune(app);
  add_gc(app);
  add_completion(app);
  add_manual(app);
  read_numbers_strictly(app);
  const std::vector<std::string> words{argv + 1, argv + argc};
  if (!words.empty() && words[0] == "complete")
    return print_completion(app, words, [](auto&&...) { return std::vector<Candidate>(); });
  try {
    check_commands(app, words);
    app.parse(argc, argv);
    return exit_code;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return refuse(Code::kUsage, str(e.what(), "; try '", help_of(app, words), "'"));
  } catch (const Error& e) {
    std::cout.flush();
    return refuse(e.code(), e.what());
  } catch (const Interrupted& e) {
    fail(0, e.hint.empty() ? "interrupted" : "interrupted; " + e.hint);
    end_by_signal(e.signal);
  } catch (const std::exception&) {
    return refuse(Code::kEnvironment, caught());
  }
}

int command(int argc, char** argv) {
  const TerminalOutput safe;
  return after_output(run(argc, argv));
}

}  // namespace
}  // namespace echelon::tool

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // exceeding the file size limit becomes an error of write(2)
  echelon::tool::watch_interrupts();
  return echelon::tool::command(argc, argv);
}
