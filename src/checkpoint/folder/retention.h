#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// Which checkpoints of a run are kept, and how the others are removed.
namespace echelon::checkpoint {

/// A commit is kept if any of these keeps it. The newest two intact commits are always kept.
struct RetentionPolicy {
  std::int64_t keep_last = 3;            ///< the newest ones; 0: all
  std::int64_t keep_every = 0;           ///< those whose step is a multiple of it; 0: none
  std::vector<std::int64_t> keep_steps;  ///< these, such as the one with the best validation loss
};

enum class StepState {
  kWhole,        ///< committed, and every file is there with its size
  kDamaged,      ///< was committed, but COMMIT, MANIFEST.json or a file has changed
  kUncommitted,  ///< its save did not finish, or has not yet
};

/// A step folder as prune sees it.
struct StepFolder {
  std::filesystem::path folder;
  std::int64_t step = 0;
  StepState state = StepState::kWhole;
  std::string reader;  ///< who holds a lease on it (ReadLease); empty: nobody
};
/// Oldest step first. Reads no tensor. Throws Error(kCheckpoint) when the folder cannot be listed; one that
/// does not exist has none.
[[nodiscard]] std::vector<StepFolder> step_folders(const std::filesystem::path& checkpoints);

struct PruneDecision {
  StepFolder step;
  bool goes = false;
  std::string why;  ///< for people: "older than the last 3"
};
/// In the order given. Without an intact commit nothing is removed.
[[nodiscard]] std::vector<PruneDecision> plan_prune(std::span<const StepFolder> oldest_first,
                                                    const RetentionPolicy& policy);

/// Carries a plan out, oldest first: a folder is renamed to ".trash-<name>" and then removed, so an
/// interruption at any moment leaves intact commits and trash, never half a commit. A folder on which a lease
/// appeared meanwhile gets its name back. Returns the removed folders; warns of those that could not be
/// removed.
std::vector<std::filesystem::path> carry_out(std::span<const PruneDecision> plan);

/// Gives folders in the trash their names back if they have a lease: an interrupted prune left them before it
/// looked for leases again. Throws Error(kCheckpoint).
void bring_back_leased(const std::filesystem::path& checkpoints);

/// What a run does after each commit: restores leased folders, removes what earlier prunes left, then plans
/// and carries out.
void prune(const std::filesystem::path& checkpoints, const RetentionPolicy& policy);

/// An entry that is no longer needed.
struct Leftover {
  std::filesystem::path path;
  std::string why;
};
/// In a checkpoints folder: folders that a prune renamed, unfinished attempts that are not newer than the
/// newest intact commit, stale leases, and outputs of echelon-ckpt ("<name>.partial-<id>") unchanged for a
/// day.
[[nodiscard]] std::vector<Leftover> find_leftovers(const std::filesystem::path& checkpoints);
/// Returns how many were removed; warns of the others.
std::size_t remove_leftovers(std::span<const Leftover> leftovers);

}  // namespace echelon::checkpoint
