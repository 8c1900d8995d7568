#include "train/restore.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/read/leased_reader.h"
#include "comm/agree.h"
#include "comm/blob_text.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"

namespace echelon {
namespace {

/// Folders that claim to be committed, damaged ones included, newest first. Applies options.resume.
std::vector<std::string> candidates(const CheckpointOptions& options, const RunFolder& folder) {
  checkpoint::warn_of_linked_steps(folder.checkpoints());
  std::vector<std::string> newest_first;
  for (const auto& found : checkpoint::list(folder.checkpoints())) {
    if (found.committed || !found.problem.empty()) newest_first.push_back(found.folder.string());
    if (!found.committed && found.problem.empty()) {
      log::warn(str("checkpoint '", found.folder.string(),
                    "' was never committed (its save did not finish) and is skipped"));
    }
  }
  std::reverse(newest_first.begin(), newest_first.end());
  if (options.resume == Resume::kMust && newest_first.empty()) {
    throw Error(Code::kUsage, str("checkpoint.resume is 'must', but '", folder.checkpoints().string(),
                                  "' holds no committed checkpoint; set it to 'auto' for a first start"));
  }
  if (options.resume == Resume::kNever && !newest_first.empty()) {
    throw Error(Code::kUsage,
                str("checkpoint.resume is 'never', but '", folder.checkpoints().string(),
                    "' holds checkpoints; set it to 'auto' to continue them, or use another run.dir"));
  }
  return newest_first;
}

/// Runs `body` on every rank. Returns, on every rank, the text of the first rank's Error(kCheckpoint), or an
/// empty text. Any other exception ends all ranks, as in agree(). Collective.
std::string failure_of(Communicator& comm, const std::function<void()>& body) {
  std::string mine;
  agree(comm, "read checkpoint", [&] {
    try {
      body();
    } catch (const Error& e) {
      if (e.code() != Code::kCheckpoint) throw;
      mine = e.what();
    }
  });
  for (const Blob& text : comm.gather_blobs(to_blob(mine), "damage of a checkpoint")) {
    if (!text.empty()) return to_text(text);
  }
  return "";
}

/// Only rank 0 inspects: all ranks have the same recipe.
std::string other_model(const Inspect& inspect, const checkpoint::Reader& reader, const Communicator& comm) {
  return comm.rank() == 0 && inspect ? inspect(reader) : "";
}

/// Restores from one folder. Returns the damage found; empty if restored. Collective.
std::string restore(const std::filesystem::path& folder, Communicator& comm, TrainState& state,
                    const Inspect& inspect) {
  std::unique_ptr<checkpoint::Reader> reader;
  checkpoint::TrainerState saved;
  std::string damage = failure_of(comm, [&] {
    reader = std::make_unique<checkpoint::Reader>(folder);
    saved = checkpoint::parse_trainer_state(reader->trainer_state(), reader->step(),
                                            str("checkpoint '", folder.string(), "': trainer state"));
  });
  if (!damage.empty()) return damage;
  agree(comm, "check checkpoint", [&] {
    in_context("resume", [&] {
      if (const std::string difference = other_model(inspect, *reader, comm); !difference.empty()) {
        throw Error(Code::kCheckpoint,
                    str("checkpoint '", reader->folder().string(),
                        "' is of a different model (checkpoint -> this recipe): ", difference,
                        "; use the recipe it was made with, or another run.dir"));
      }
      require_same_model(*reader, state);
      require_same_data(saved, reader->folder(), state);
    });
  });
  damage = failure_of(comm, [&] { load_slices(*reader, state); });
  if (damage.empty()) apply_trainer_state(saved, state);
  return damage;
}

}  // namespace

bool restore_latest(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
                    TrainState& state, const Inspect& inspect) {
  // Rank 0 lists the folders for all ranks, which must not disagree about the newest one.
  std::string found;
  agree(comm, "find checkpoint", [&] {
    if (comm.rank() == 0) found = join(candidates(options, folder), "\n");
  });
  std::istringstream folders(to_text(comm.gather_blobs(to_blob(found), "checkpoints").at(0)));
  std::string newest_damage;
  for (std::string step; std::getline(folders, step);) {
    const std::string damage = restore(step, comm, state, inspect);
    if (damage.empty()) return true;
    if (comm.rank() == 0) {
      log::warn(str("checkpoint '", step, "' is DAMAGED and is skipped, trying the previous one: ", damage));
    }
    if (newest_damage.empty()) newest_damage = damage;
  }
  if (newest_damage.empty()) return false;
  if (comm.rank() != 0) throw Error::already_reported(Code::kCheckpoint);
  throw Error(Code::kCheckpoint, str("resume: no whole checkpoint in '", folder.checkpoints().string(),
                                     "'; all were left as they are; newest: ", newest_damage,
                                     "; restore one from a backup, or use another run.dir"));
}

WeightMatch load_initial_weights(const CheckpointOptions& options, Communicator& comm, TrainState& state,
                                 const Inspect& inspect) {
  const std::string what = str("checkpoint.init_from '", options.init_from, "'");
  std::optional<checkpoint::LeasedReader> leased;
  WeightMatch match;
  agree(comm, "check initial weights", [&] {
    in_context(what, [&] {
      leased.emplace(options.init_from);
      match = match_weights(leased->reader, state.model);
      const std::string keys = other_model(inspect, leased->reader, comm);
      if (keys.empty() && match.whole()) return;
      const std::string difference = str(
          "it is of a different model", keys.empty() ? "" : str(" (checkpoint -> this recipe: ", keys, ")"),
          match.whole() ? ", whose tensors have the same shapes" : ": " + describe(match));
      if (!options.init_partial || match.taken.empty()) {
        throw Error(Code::kCheckpoint,
                    str(difference, "; ", match.taken.empty() ? "no weight fits: " : "",
                        "use the model it was made with",
                        match.taken.empty() ? ""
                                            : str(", or set checkpoint.init_partial: true to take the ",
                                                  match.taken.size(), " tensors that fit")));
      }
      if (comm.rank() == 0) log::warn(str(what, ": ", difference, "; ", match.taken.size(), " are taken"));
    });
  });
  agree(comm, "load initial weights",
        [&] { in_context(what, [&] { load_weights(leased->reader, state.model); }); });
  if (state.ema != nullptr) state.ema->restart();
  return match;
}

}  // namespace echelon
