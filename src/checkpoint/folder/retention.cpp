#include "checkpoint/folder/retention.h"

#include <algorithm>
#include <ctime>
#include <map>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/kill_point.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/folder/lease.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::string_view kTrashOfUnfinished = ".trash-unfinished-";
constexpr std::string_view kPartialMark = ".partial-";
constexpr std::int64_t kOrphanAfter_s = 24 * 3600;
constexpr int kLevelsOfOutput = 4;

/// Do all files listed in the manifest exist, with their sizes? A commit that lost one must not cause the
/// removal of an older intact one.
bool files_are_there(const Path& folder, const Manifest& manifest) {
  try {
    for (const ManifestShard& shard : manifest.shards) {
      if (open_input(folder / shard.file).bytes != shard.bytes) return false;
    }
    for (const auto& [name, file] : manifest.attachments) {
      if (open_input(folder / name).bytes != file.bytes) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// What valid leases say, by step folder: "read by process 12 on n1".
std::map<std::string, std::string> holds_in(const Path& checkpoints) {
  std::map<std::string, std::string> holds;
  for (const Lease& lease : leases_in(checkpoints)) {
    if (lease.stale) continue;
    const bool reads = lease.kind == LeaseKind::kReader;
    holds[lease.step_folder] = str(reads ? "read by " : "being saved by ", lease.holder);
  }
  return holds;
}

void try_remove(const Path& path) {
  try {
    fs::remove_tree(path, Code::kCheckpoint);
  } catch (const Error& e) {
    log::warn(str(e.what(), "; the next clean-up tries again"));
  }
}

/// Removes the leases of processes that have ended, and of all writers: who calls this is the only one.
void drop_leases(const Path& checkpoints) {
  for (const Lease& lease : leases_in(checkpoints)) {
    if (lease.stale || lease.kind == LeaseKind::kWriter) try_remove(lease.file);
  }
}

bool is_trash(const Path& path) {
  return path.filename().string().starts_with(kTrashPrefix) && is_real_folder(path);
}

bool was_unfinished(const Path& trash) {
  return trash.filename().string().starts_with(kTrashOfUnfinished);
}

/// The name that a folder in the trash had.
std::string name_before(const Path& trash) {
  return trash.filename().string().substr((was_unfinished(trash) ? kTrashOfUnfinished : kTrashPrefix).size());
}

/// Must a folder in the trash not go? Somebody reads it, or it was taken for an unfinished save, and was
/// committed meanwhile.
bool must_come_back(const Path& trash) {
  return holds_in(trash.parent_path()).contains(name_before(trash)) ||
         (was_unfinished(trash) && entry_exists(trash / kCommitFile));
}

/// Renames first: from then on nobody mistakes the half-removed folder for a checkpoint.
void discard(const Path& folder, bool unfinished, const Owner* owner) {
  const Path checkpoints = folder.parent_path();
  const Path trash = checkpoints / (std::string(unfinished ? kTrashOfUnfinished : kTrashPrefix) +
                                    folder.filename().string());
  try {
    if (owner != nullptr) owner->require();
    fs::rename(folder, trash, Code::kCheckpoint);
    // Looked at again after the rename: a reader creates its lease before it opens the folder, so either
    // this sees the lease, or the reader no longer finds the folder. A commit is a file in it.
    if (must_come_back(trash)) return fs::rename(trash, folder, Code::kCheckpoint);
    // The rename must be durable before the first file goes: a loss of power could otherwise bring back the
    // old name with files missing.
    fs::fsync_directory(checkpoints, Code::kCheckpoint);
    kill_point("aside");
  } catch (const Error& e) {
    return log::warn(str("old checkpoint was not removed: ", e.what()));
  }
  try_remove(trash);
}

/// Decides for one folder whether it is kept, from the list of all folders.
class Judge {
 public:
  Judge(const RetentionPolicy& policy, std::span<const StepFolder> oldest_first)
      : policy_(policy), last_(commits_to_keep(policy.keep_last)) {
    for (auto step = oldest_first.rbegin(); step != oldest_first.rend(); ++step) {
      if (step->state != StepState::kWhole) continue;
      newest_ = std::max(newest_, step->step);
      if (step->proven && proven_++ < last_) border_ = step->folder.filename().string();
    }
    // A whole commit that nobody has read since its save may be damaged, and "damaged" may mean that a file
    // was unreadable for a while: without enough proven commits, none is removed.
    if (!enough() && !oldest_first.empty()) border_ = oldest_first.front().folder.filename().string();
  }

  [[nodiscard]] PruneDecision decide(const StepFolder& step, bool among_last) const {
    PruneDecision decision{.step = step, .why = stays(step, among_last)};
    if (!decision.why.empty()) return decision;
    decision.goes = true;
    if (step.state == StepState::kWhole) decision.why = str("older than the last ", last_);
    if (step.state == StepState::kDamaged) decision.why = str("damaged, and older than the last ", last_);
    if (step.state == StepState::kUncommitted) decision.why = "its save did not finish";
    return decision;
  }
  /// Name of the oldest folder among the last ones.
  [[nodiscard]] const std::string& border() const { return border_; }

 private:
  [[nodiscard]] bool enough() const { return proven_ >= last_; }
  [[nodiscard]] std::string stays(const StepFolder& step, bool among_last) const {
    if (newest_ < 0) return "there is no whole checkpoint to fall back on";
    if (step.state == StepState::kUncommitted && step.step > newest_)
      return "its save may still be running: it is newer than the newest commit";
    if (step.state != StepState::kUncommitted && among_last) return why_among_last(step);
    if (step.state != StepState::kUncommitted) {
      if (policy_.keep_every > 0 && step.step % policy_.keep_every == 0)
        return str("kept every ", policy_.keep_every, " steps");
      if (std::ranges::find(policy_.keep_steps, step.step) != policy_.keep_steps.end())
        return "kept by request";
    }
    return step.held;
  }
  [[nodiscard]] std::string why_among_last(const StepFolder& step) const {
    if (step.state == StepState::kDamaged) return "damaged, but newer than what is kept; see verify";
    if (last_ == 0) return "all are kept";
    if (step.proven) return str("one of the last ", last_);
    if (enough()) return str("newer than the last ", last_, " that are known to be readable");
    return str("only ", proven_, " of ", last_, " are known to be readable yet");
  }

  const RetentionPolicy& policy_;
  std::int64_t last_;
  std::int64_t proven_ = 0;
  std::int64_t newest_ = -1;  ///< step of the newest whole commit
  std::string border_;
};

bool is_partial_output(const Path& path) {
  const std::string name = path.filename().string();
  const auto mark = name.rfind(kPartialMark);
  return mark != std::string::npos && mark != 0 &&
         is_save_id(std::string_view(name).substr(mark + kPartialMark.size()));
}

}  // namespace

std::vector<StepFolder> step_folders(const Path& checkpoints, const KnownSteps& known) {
  const std::vector<Found> listed = list(checkpoints);
  const auto holds = holds_in(checkpoints);  // after the folders: a writer's lease is older than its folder
  std::set<std::string> read;                // ids of saves that were sound when a start began
  for (const Found& found : listed) {
    if (found.manifest) read.insert(found.manifest->resumed_from);
  }
  std::vector<StepFolder> steps;
  for (const Found& found : listed) {
    const std::string name = found.folder.filename().string();
    StepFolder step{.folder = found.folder, .step = found.step, .state = StepState::kUncommitted};
    if (found.committed)
      step.state = files_are_there(found.folder, *found.manifest) ? StepState::kWhole : StepState::kDamaged;
    if (!found.problem.empty() || known.damaged.contains(name)) step.state = StepState::kDamaged;
    step.proven = step.state == StepState::kWhole &&
                  (known.readable.contains(name) || read.contains(found.manifest->save_id));
    if (const auto held = holds.find(name); held != holds.end()) step.held = held->second;
    steps.push_back(std::move(step));
  }
  std::ranges::stable_sort(steps, {}, [](const StepFolder& a) { return std::pair(a.step, a.proven); });
  return steps;
}

std::vector<PruneDecision> plan_prune(std::span<const StepFolder> oldest_first,
                                      const RetentionPolicy& policy) {
  const Judge judge(policy, oldest_first);
  std::vector<PruneDecision> plan;
  bool among_last = false;
  for (const StepFolder& step : oldest_first) {
    among_last = among_last || step.folder.filename() == judge.border();
    plan.push_back(judge.decide(step, among_last || policy.keep_last == 0));
  }
  return plan;
}

void carry_out(std::span<const PruneDecision> plan, const Owner* owner) {
  for (const PruneDecision& decision : plan) {
    if (decision.goes) discard(decision.step.folder, decision.step.state == StepState::kUncommitted, owner);
  }
}

void bring_back(const Path& checkpoints) {
  for (const Path& path : entries_of(checkpoints)) {
    if (!is_trash(path) || !must_come_back(path)) continue;
    if (!entry_exists(checkpoints / name_before(path)))
      fs::rename(path, checkpoints / name_before(path), Code::kCheckpoint);
  }
}

void remove_unfinished(const Path& checkpoints, const Owner& owner) {
  try {
    owner.require();
    drop_leases(checkpoints);
    const std::vector<StepFolder> steps = step_folders(checkpoints);
    const auto is_whole = [](const StepFolder& step) { return step.state == StepState::kWhole; };
    if (std::ranges::none_of(steps, is_whole)) return;
    for (const StepFolder& step : steps) {
      if (step.state == StepState::kUncommitted && step.held.empty()) discard(step.folder, true, &owner);
    }
  } catch (const Error& e) {
    log::warn(str("unfinished saves were not removed: ", e.what()));
  }
}

void prune(const Path& checkpoints, const RetentionPolicy& policy, const KnownSteps& known,
           const Owner* owner) {
  if (owner != nullptr) owner->require();
  bring_back(checkpoints);
  for (const Path& path : entries_of(checkpoints)) {
    if (is_trash(path)) try_remove(path);
  }
  drop_leases(checkpoints);
  carry_out(plan_prune(step_folders(checkpoints, known), policy), owner);
}

std::vector<Leftover> find_leftovers(const Path& checkpoints) {
  std::vector<Leftover> leftovers;
  for (const Path& path : entries_of(checkpoints)) {
    if (is_trash(path) && !must_come_back(path)) leftovers.push_back({path, "an interrupted prune left it"});
    if (is_partial_output(path) && std::time(nullptr) - last_change(path, kLevelsOfOutput) > kOrphanAfter_s)
      leftovers.push_back({path, "an output that was never finished, unchanged for a day"});
  }
  for (const PruneDecision& decision : plan_prune(step_folders(checkpoints), {.keep_last = 0})) {
    if (decision.goes)
      leftovers.push_back({decision.step.folder, decision.why});  // keep_last 0: only uncommitted ones
  }
  for (const Lease& lease : leases_in(checkpoints)) {
    if (lease.stale) leftovers.push_back({lease.file, "a lease of " + lease.holder + ", which has ended"});
  }
  return leftovers;
}

void remove_leftovers(std::span<const Leftover> leftovers) {
  for (const Leftover& leftover : leftovers) {
    const bool attempt = parse_step_folder(leftover.path.filename().string()).has_value();
    attempt ? discard(leftover.path, true, nullptr) : try_remove(leftover.path);
  }
}

}  // namespace echelon::checkpoint
