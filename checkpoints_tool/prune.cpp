#include <algorithm>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/trainer_state.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/read/verify.h"
#include "checkpoints_tool/commands.h"
#include "checkpoints_tool/convert/folder_size.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {
namespace {

using checkpoint::Leftover;
using checkpoint::PruneDecision;
using checkpoint::StepFolder;
using checkpoint::StepState;

/// The checkpoints folder of a run that exists.
Path existing_checkpoints(const Path& run) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(run, ignored))
    throw Error(Code::kUsage, "no folder '", run.string(), "'");
  if (checkpoint::is_step_folder(run))
    throw Error(Code::kUsage, "'", run.string(), "' is one checkpoint; name the run folder that holds it");
  Path checkpoints = checkpoint::checkpoints_folder(run);
  checkpoint::warn_of_linked_steps(checkpoints);
  return checkpoints;
}

/// The trainer stores in each checkpoint which step had the best validation loss so far, so the newest one
/// has it.
/// That entry may be damaged; then the previous checkpoint says which step to keep.
std::int64_t best_step(const std::vector<StepFolder>& oldest_first) {
  for (auto step = oldest_first.rbegin(); step != oldest_first.rend(); ++step) {
    if (step->state != StepState::kWhole) continue;
    try {
      const auto best = checkpoint::best_of(checkpoint::load_manifest(step->folder).trainer_state,
                                            str("checkpoint '", step->folder.string(), "': trainer state"));
      if (!best) return -1;
      const auto there = std::ranges::any_of(
          oldest_first, [&](const StepFolder& other) { return other.step == best->step; });
      if (!there)
        log::warn(str("step ", best->step, " had the best validation loss, but its checkpoint is missing"));
      return best->step;
    } catch (const Error& e) {
      log::warn(str("the best step is taken from the previous checkpoint: ", e.what()));
    }
  }
  return -1;
}

/// A mistyped step would let go what was to be kept.
void check_kept_steps(const PruneOptions& options, const std::vector<StepFolder>& steps) {
  for (const std::int64_t wanted : options.keep.keep_steps) {
    const auto is_it = [&](const StepFolder& step) {
      return step.step == wanted && step.state != StepState::kUncommitted;
    };
    if (std::ranges::none_of(steps, is_it))
      throw Error(Code::kUsage, "--keep-step ", wanted, ": '", options.run.string(),
                  "' has no checkpoint of that step; correct or remove it (echelon-ckpt ls lists them)");
  }
}

/// Reads commits, newest first, until `wanted` are sound; what differs from its checksums is damaged.
void prove_by_reading(std::vector<StepFolder>& oldest_first, std::int64_t wanted) {
  for (auto step = oldest_first.rbegin(); step != oldest_first.rend() && wanted > 0; ++step) {
    if (step->state != StepState::kWhole) continue;
    const checkpoint::FolderLease lease(step->folder);
    Progress progress(str("reading ", step->folder.filename().string()));
    const auto report =
        checkpoint::verify(step->folder, checkpoint::VerifyDepth::kDeep,
                           [&](std::uint64_t done, std::uint64_t total) { progress.show(done, total); });
    step->proven = report.damages.empty();
    if (step->proven) {
      --wanted;
      continue;
    }
    step->state = StepState::kDamaged;
    log::warn(str("'", step->folder.string(), "' does not count: ", report.damages.front().problem));
  }
}

struct Row {
  Path path;
  std::uint64_t bytes = 0;
  bool goes = false;
  std::string why;
};

void print_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::cout << std::left << std::setw(8) << (row.goes ? "goes" : "stays") << std::right << std::setw(12)
              << human_bytes(row.bytes) << "  " << row.path.filename().string() << ": " << row.why << '\n';
  }
}

void print_json(const std::vector<Row>& rows, bool done) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    list.push_back({{"path", row.path.string()}, {"bytes", row.bytes}, {"goes", row.goes}, {"why", row.why}});
  std::cout << json_text(nlohmann::ordered_json{{"done", done}, {"entries", std::move(list)}}) << '\n';
}

/// Prints the entries that were or would be removed. Throws if something could not be removed.
void report(const std::vector<Row>& rows, bool done, bool json) {
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  std::size_t left = 0;
  for (const Row& row : rows) {
    if (!row.goes) continue;
    bytes += row.bytes;
    ++count;
    if (done && std::filesystem::exists(std::filesystem::symlink_status(row.path))) ++left;
  }
  if (json) {
    print_json(rows, done);
  } else {
    print_rows(rows);
    if (count == 0) {
      std::cout << "nothing to remove\n";
    } else if (done) {
      std::cout << "removed " << count - left << " of " << count << '\n';
    } else {
      std::cout << "would remove " << count << ", " << human_bytes(bytes) << "; add --yes to do it\n";
    }
  }
  if (left != 0)
    throw Error(Code::kCheckpoint, left, " of ", count,
                " were not removed: removal failed, or a reader opened them meanwhile");
}

}  // namespace

void prune_run(const PruneOptions& options) {
  const Path checkpoints = existing_checkpoints(options.run);
  if (options.yes) checkpoint::bring_back(checkpoints);
  std::vector<StepFolder> steps = checkpoint::step_folders(checkpoints);
  check_kept_steps(options, steps);
  for (StepFolder& step : steps) step.proven = options.quick && step.state == StepState::kWhole;
  if (!options.quick) prove_by_reading(steps, commits_to_keep(options.keep.keep_last));
  checkpoint::RetentionPolicy policy = options.keep;
  if (const std::int64_t best = best_step(steps); best >= 0) policy.keep_steps.push_back(best);
  const std::vector<PruneDecision> plan = checkpoint::plan_prune(steps, policy);
  std::vector<Row> rows;
  for (const PruneDecision& decision : plan)
    rows.push_back({decision.step.folder, folder_size(decision.step.folder), decision.goes, decision.why});
  if (options.yes) checkpoint::carry_out(plan);
  report(rows, options.yes, options.json);
}

namespace {

/// Adds the memory that a killed job left on this node, unless the run is going on.
void add_memory(const Path& run, std::vector<Leftover>& leftovers) {
  const checkpoint::MemoryIdentity identity = checkpoint::identity_of(run);
  const Path& folder = identity.folder;
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(std::filesystem::symlink_status(folder, ignored))) return;
  std::string why;
  try {
    if (checkpoint::memory_in_use(folder)) why = "it is in use";
    if (!checkpoint::is_of(identity, run))
      why =
          "they belong to the run folder from which this one was copied or moved; if that is gone, remove "
          "them by hand";
  } catch (const Error& e) {
    why = e.what();
  }
  if (!why.empty()) {
    log::warn(str("'", folder.string(), "', the run's memory checkpoints on this node, stays: ", why));
    return;
  }
  leftovers.push_back({folder, "memory checkpoints on this node, from which the run could still continue"});
}

}  // namespace

void collect_garbage(const GcOptions& options) {
  const Path checkpoints = existing_checkpoints(options.run);
  if (options.yes) checkpoint::bring_back(checkpoints);
  std::vector<Leftover> leftovers = checkpoint::find_leftovers(checkpoints);
  if (checkpoints != options.run) add_memory(options.run, leftovers);
  std::vector<Row> rows;
  for (const Leftover& leftover : leftovers)
    rows.push_back({leftover.path, folder_size(leftover.path), true, leftover.why});
  if (options.yes) checkpoint::remove_leftovers(leftovers);
  report(rows, options.yes, options.json);
}

}  // namespace echelon::tool
