#include "train/restore.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/leased_reader.h"
#include "comm/agree.h"
#include "comm/blob_text.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"

namespace echelon {
namespace {

/// Folders that claim to be committed, damaged ones included, newest first. Applies options.resume;
/// `remembered`: there is one in memory.
std::vector<std::string> candidates(const CheckpointOptions& options, const RunFolder& folder,
                                    bool remembered) {
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
  if (options.resume == Resume::kMust && newest_first.empty() && !remembered) {
    throw Error(Code::kUsage, str("checkpoint.resume is 'must', but '", folder.checkpoints().string(),
                                  "' holds no committed checkpoint; set it to 'auto' for a first start"));
  }
  if (options.resume == Resume::kNever && (!newest_first.empty() || remembered)) {
    const std::string where =
        newest_first.empty() ? "the nodes' memory" : str('\'', folder.checkpoints().string(), '\'');
    throw Error(Code::kUsage,
                str("checkpoint.resume is 'never', but ", where,
                    " holds checkpoints; set it to 'auto' to continue them, or use another run.dir"));
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

/// Called on every rank before tensors are read. Returns the damage found. Collective.
using BeforeLoading = std::function<std::string(const checkpoint::Reader&)>;

/// Restores from one folder. Returns the damage found; empty if restored. Collective.
std::string restore(const std::filesystem::path& folder, Communicator& comm, TrainState& state,
                    const Inspect& inspect, const BeforeLoading& before_loading = {}) {
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
  if (before_loading) damage = before_loading(*reader);
  if (damage.empty()) damage = failure_of(comm, [&] { load_slices(*reader, state); });
  if (damage.empty()) apply_trainer_state(saved, state);
  return damage;
}

/// The same from memory: each node puts the checkpoint together, and brings the shards that its ranks read.
std::string restore_from(const checkpoint::MemoryCandidate& candidate, RunMemory& memory, TrainState& state,
                         const Inspect& inspect) {
  Communicator& comm = memory.comm();
  const checkpoint::Assembly assembly = memory.assembly(candidate);
  std::string damage = failure_of(comm, [&] {
    if (memory.leads()) assembly.begin();
  });
  const auto bring = [&](const checkpoint::Reader& reader) {
    const std::vector<int> mine = memory.share_of(shards_to_load(reader, state));
    return failure_of(comm, [&] {
      for (const int shard : mine) assembly.bring(shard);
    });
  };
  if (damage.empty()) damage = restore(assembly.path(), comm, state, inspect, bring);
  if (memory.leads()) checkpoint::Assembly::remove(memory.folder());
  return damage;
}

/// Of a step folder.
std::int64_t step_of(const std::string& folder) {
  const auto name = checkpoint::parse_step_folder(std::filesystem::path(folder).filename().string());
  return name ? name->step : -1;
}

}  // namespace

std::optional<Restored> restore_latest(const CheckpointOptions& options, const RunFolder& folder,
                                       Communicator& comm, TrainState& state, const Inspect& inspect,
                                       RunMemory* memory) {
  std::vector<checkpoint::MemoryCandidate> remembered;
  if (memory != nullptr) remembered = memory->candidates();
  auto newest_in_memory = remembered.begin();
  // Rank 0 lists the folders for all ranks, which must not disagree about the newest one.
  std::string found;
  agree(comm, "find checkpoint", [&] {
    if (comm.rank() == 0) found = join(candidates(options, folder, !remembered.empty()), "\n");
  });
  std::istringstream folders(to_text(comm.gather_blobs(to_blob(found), "checkpoints").at(0)));
  const bool lead = comm.rank() == 0;
  /// Those in memory that are newer than `step`, as long as they are damaged.
  const auto from_memory_after = [&](std::int64_t step) -> std::optional<Restored> {
    for (; newest_in_memory != remembered.end() && newest_in_memory->step > step; ++newest_in_memory) {
      const std::string damage = restore_from(*newest_in_memory, *memory, state, inspect);
      if (damage.empty()) {
        memory->resumed_from(&*newest_in_memory);
        return Restored{.memory = memory->holders(*newest_in_memory)};
      }
      if (lead)
        log::warn(str("step ", newest_in_memory->step, " in memory is DAMAGED and is skipped, trying the ",
                      "previous one: ", damage));
    }
    return std::nullopt;
  };
  std::string newest_damage;
  for (std::string step; std::getline(folders, step);) {
    if (auto restored = from_memory_after(step_of(step))) return restored;
    const std::string damage = restore(step, comm, state, inspect);
    if (damage.empty()) {
      if (memory != nullptr) memory->resumed_from(nullptr);
      return Restored{};
    }
    if (lead) {
      log::warn(str("checkpoint '", step, "' is DAMAGED and is skipped, trying the previous one: ", damage));
    }
    if (newest_damage.empty()) newest_damage = damage;
  }
  if (auto restored = from_memory_after(-1)) return restored;
  if (newest_damage.empty()) {
    if (memory != nullptr) memory->resumed_from(nullptr);
    return std::nullopt;
  }
  if (!lead) throw Error::already_reported(Code::kCheckpoint);
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
