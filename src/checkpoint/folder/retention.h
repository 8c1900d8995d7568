#pragma once
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/folder/owner.h"
#include "checkpoint/options.h"

/// Which checkpoints of a run are kept, and how the others are removed.
namespace echelon::checkpoint {

/// A commit is kept if any of these keeps it. Only commits that are proven readable count for keep_last, and
/// no commit is removed before there are that many, at least two.
struct RetentionPolicy {
  std::int64_t keep_last = 3;            ///< the newest proven ones, and what is newer; 0: all
  std::int64_t keep_every = 0;           ///< those whose step is a multiple of it; 0: none
  std::vector<std::int64_t> keep_steps;  ///< these, such as the one with the best validation loss
};

enum class StepState {
  kWhole,        ///< committed, and every file is there with its size
  kDamaged,      ///< was committed, but COMMIT, MANIFEST.json or a file has changed
  kUncommitted,  ///< its save did not finish, or has not yet
};

/// What a process knows of commits beyond their sizes.
struct KnownSteps {
  std::set<std::string> readable;  ///< step folders that were written here, or read whole
  std::set<std::string> damaged;   ///< those that were read, and are not as they were written
  /// Save id of one that was sound when the start began: it read that whole or, if it continues from memory,
  /// that save's run had written or read it. Empty: none.
  std::string resumed_from;
  std::string newest_sound = {};    ///< save id of the newest one that is sound by now; empty: none
  std::int64_t newest_commit = -1;  ///< step of the newest one that was read or made; -1: none
};

/// A step folder as prune sees it.
struct StepFolder {
  std::filesystem::path folder;
  std::int64_t step = 0;
  StepState state = StepState::kWhole;
  std::string held = {};  ///< by a lease: "read by process 12 on n1"; empty: by nobody
  /// The bytes of a whole commit are known to be sound: the process that asks wrote or read them, or
  /// a later commit tells that they were sound when its start began.
  bool proven = false;
};
/// Oldest step first; of several of one step, those that are proven last. Reads no tensor. Throws
/// Error(kCheckpoint) when the folder cannot be listed; one that does not exist has none.
[[nodiscard]] std::vector<StepFolder> step_folders(const std::filesystem::path& checkpoints,
                                                   const KnownSteps& known = {});

struct PruneDecision {
  StepFolder step;
  bool goes = false;
  std::string why;  ///< for people: "older than the last 3"
};
/// In the order given. Without a whole commit nothing is removed.
[[nodiscard]] std::vector<PruneDecision> plan_prune(std::span<const StepFolder> oldest_first,
                                                    const RetentionPolicy& policy);

/// Carries a plan out, oldest first: a folder is renamed to ".trash-<name>" and then removed, so an
/// interruption at any moment leaves intact commits and trash, never half a commit. A folder gets its name
/// back if a lease has appeared, or its save was committed meanwhile. `owner` (null: none) is looked at
/// before each removal. Warns of what could not be removed.
void carry_out(std::span<const PruneDecision> plan, const Owner* owner = nullptr);

/// Removes what saves of earlier starts have left unfinished, if there is a whole commit to fall back on.
/// They would take room until the next commit. `owner`: of this start, after which no earlier one can commit.
/// Warns of what could not be removed.
void remove_unfinished(const std::filesystem::path& checkpoints, const Owner& owner);

/// Gives folders in the trash their names back if they have a lease, or were committed while a prune took
/// them for unfinished: an interrupted prune left them before it looked again. Throws Error(kCheckpoint).
void bring_back(const std::filesystem::path& checkpoints);

/// What a run does after each commit: brings folders back, removes what earlier prunes and lost processes
/// left, then plans and carries out. Nothing else is being saved there: what leases of writers say is void.
void prune(const std::filesystem::path& checkpoints, const RetentionPolicy& policy, const KnownSteps& known,
           const Owner* owner = nullptr);

/// An entry that is no longer needed.
struct Leftover {
  std::filesystem::path path;
  std::string why;
};
/// In a checkpoints folder: folders that a prune renamed, unfinished attempts that are not newer than the
/// newest intact commit, stale leases, and outputs of echelon-ckpt ("<name>.partial-<id>") unchanged for a
/// day.
[[nodiscard]] std::vector<Leftover> find_leftovers(const std::filesystem::path& checkpoints);
/// Warns of what could not be removed.
void remove_leftovers(std::span<const Leftover> leftovers);

}  // namespace echelon::checkpoint
