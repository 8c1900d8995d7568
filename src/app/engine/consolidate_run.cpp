#include "app/engine/consolidate_run.h"

#include "base/error.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/process/program.h"
#include "base/str.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/trainer_state.h"
#include "checkpoint/read/reader.h"

namespace echelon::app {
namespace {

using Path = std::filesystem::path;

/// The step of the lowest validation loss in the trainer's state, or -1.
std::int64_t best_step(const checkpoint::Reader& reader) {
  const auto best = checkpoint::best_of(reader.trainer_state(),
                                        str("checkpoint '", reader.folder().string(), "': trainer state"));
  return best ? best->step : -1;
}

/// The checkpoint to export: the newest, or with keep_best the best, if it still exists.
Path choose(const Recipe& recipe, const Path& checkpoints) {
  const checkpoint::Reader newest(checkpoints);
  if (!recipe.checkpoint.keep_best) return newest.folder();
  const std::int64_t best = best_step(newest);
  Path chosen;
  for (const checkpoint::Found& found : checkpoint::list(checkpoints)) {
    if (found.committed && found.step == best) chosen = found.folder;  // the last one: see list()
  }
  if (!chosen.empty()) return chosen;
  log::warn(str(best < 0 ? "no validation has found a best step"
                         : str("the checkpoint of the best validation, step ", best, ", is missing"),
                "; consolidating the newest, step ", newest.step()));
  return newest.folder();
}

}  // namespace

void consolidate_run(const Recipe& recipe, const Path& root) {
  if (recipe.checkpoint.consolidate == Consolidate::kNone) return;
  const Path from = choose(recipe, root / "checkpoints");
  const std::string step = from.filename().string().substr(0, from.filename().string().find('.'));
  const std::string format(word_of(recipe.checkpoint.consolidate));
  const bool hdf5 = recipe.checkpoint.consolidate == Consolidate::kHdf5;
  const Path output = root / str("consolidated-", step, hdf5 ? ".h5" : "");
  if (std::filesystem::exists(output)) {
    // The clock of one file system: an output is younger than the commit that it is of.
    std::error_code unknown;
    const auto made = std::filesystem::last_write_time(output, unknown);
    if (unknown || made >= checkpoint::look_at(from).committed_at) return;
    throw Error(Code::kCheckpoint, "the run is complete and its checkpoint intact, but '", output.string(),
                "' is older than '", from.string(),
                "' and has other weights; move it away and run the same command again");
  }
  const Path tool = own_program().parent_path() / "echelon-ckpt";
  log::info(str("consolidating ", from.string()));
  std::vector<std::string> command{tool.string(), "consolidate", from.string(),  "--to",
                                   format,        "--output",    output.string()};
  if (recipe.run.allow_foreign_folder) command.emplace_back("--allow-foreign-folder");
  // Its output belongs to the log. It would also fail if nobody reads standard output any more.
  const ProgramRun run =
      run_program(command, {.own_group = false, .output = ProgramOptions::Output::kStandardError});
  if (!run.found)
    throw Error(Code::kEnvironment, "'", command[0], "' cannot be started: checkpoint.consolidate needs it");
  if (run.status != 0) {
    throw Error(Code::kCheckpoint, "the run is complete and its checkpoint intact, but '", output.string(),
                "' could not be made (echelon-ckpt: exit code ", run.status,
                "); make it by hand: echelon-ckpt consolidate ", from.string(), " --to ", format,
                " --output ", output.string());
  }
}

}  // namespace echelon::app
