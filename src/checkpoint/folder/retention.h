#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

/// Which checkpoints of a run are kept, and how the others go.
namespace echelon::checkpoint {

/// A commit stays when any of these keeps it. The newest two whole commits always stay.
struct RetentionPolicy {
  std::int64_t keep_last = 3;            ///< the newest ones; 0: all
  std::int64_t keep_every = 0;           ///< those whose step is a multiple of it; 0: none
  std::vector<std::int64_t> keep_steps;  ///< these, such as the one with the best validation loss
};

enum class StepState {
  kWhole,        ///< committed, and every file is there with its size
  kDamaged,      ///< was committed, but COMMIT, MANIFEST.json or a file is not as it was
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
/// In the order given. Without a whole commit nothing goes.
[[nodiscard]] std::vector<PruneDecision> plan_prune(std::span<const StepFolder> oldest_first,
                                                    const RetentionPolicy& policy);

/// Carries a plan out, oldest first: a folder is renamed to ".trash-<name>" and then removed, so an
/// interruption at any moment leaves whole commits and rubbish, never half a commit. A folder on which a
/// lease appeared meanwhile comes back. Returns the folders that are gone; what could not be removed is named
/// in a warning.
std::vector<std::filesystem::path> carry_out(std::span<const PruneDecision> plan);

/// What was put aside by a pruning that ended before it looked for leases again, and has one, gets its name
/// back. Throws Error(kCheckpoint).
void bring_back_leased(const std::filesystem::path& checkpoints);

/// What a run's trainer does after a commit: brings back what is leased, removes what else earlier prunings
/// left, then plans and carries out.
void prune(const std::filesystem::path& checkpoints, const RetentionPolicy& policy);

/// Something that nobody needs any more.
struct Leftover {
  std::filesystem::path path;
  std::string why;
};
/// In a checkpoints folder: folders that a pruning put aside, attempts that did not finish and are not newer
/// than the newest whole commit, stale leases, and outputs of echelon-ckpt ("<name>.partial-<id>") that
/// nothing has written to for a day.
[[nodiscard]] std::vector<Leftover> find_leftovers(const std::filesystem::path& checkpoints);
/// Returns how many are gone; the others are named in a warning.
std::size_t remove_leftovers(std::span<const Leftover> leftovers);

}  // namespace echelon::checkpoint
