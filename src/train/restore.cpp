#include "train/restore.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/resume.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/names.h"
#include "checkpoint/read/leased_reader.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "train/read_fault.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"
#include "train/weights/outside_base.h"

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
  checkpoint::check_resume(options.resume, folder.checkpoints(), !newest_first.empty(), remembered);
  return newest_first;
}

/// Rank 0 lists the candidates for all ranks, which must not disagree about the newest one. Collective.
std::vector<std::string> agreed_candidates(const CheckpointOptions& options, const RunFolder& folder,
                                           Communicator& comm, bool remembered) {
  std::vector<std::string> found;
  const std::string where = str('\'', folder.checkpoints().string(), '\'');
  const Fault fault = patiently(comm, where, [&] {
    return fault_of(comm, Reads::kOwnPart, [&] {
      if (comm.rank() == 0) found = candidates(options, folder, remembered);
    });
  });
  agree(comm, "find checkpoint", [&] {
    if (comm.rank() == 0 && !fault.none()) throw Error(Code::kCheckpoint, fault.text);
  });
  return broadcast_value(comm, found, "checkpoints");
}

/// Only rank 0 inspects: all ranks have the same recipe.
Differences differences(const Inspect& inspect, const checkpoint::Reader& reader, const Communicator& comm) {
  return comm.rank() == 0 && inspect ? inspect(reader) : Differences{};
}

/// Called on every rank before tensors are read. Collective.
using BeforeLoading = std::function<Fault(const checkpoint::Reader&)>;

/// The rules by which the run judges checkpoints.
struct Rules {
  const Inspect& inspect;
  const std::string& base;  ///< where the base may be too
};

/// Reads what the checkpoint leaves out. Collective.
void restore_base(TrainState& state, const std::string& instead, Communicator& comm) {
  if (!state.base) return;
  in_context("resume", [&] {
    load_base(*state.base,
              {.folders = {state.base->folder, instead},
               .how = "name where it is now with checkpoint.init_from, or model.from"},
              state.model, comm);
  });
}

/// The next checkpoint leaves out no more than what is still frozen.
void keep_trained(TrainState& state) {
  if (!state.base) return;
  const checkpoint::BaseNote frozen = base_of(state.model);
  std::erase_if(state.base->tensors,
                [&](const auto& tensor) { return frozen.find(tensor.info.name) == nullptr; });
}

/// Restores from one folder. Collective.
Fault restore(const std::filesystem::path& folder, Communicator& comm, TrainState& state, const Rules& rules,
              const BeforeLoading& before_loading = {}) {
  std::unique_ptr<checkpoint::Reader> reader;
  checkpoint::TrainerState saved;
  Fault fault = fault_of(comm, Reads::kSame, [&] {
    reader = std::make_unique<checkpoint::Reader>(folder);
    saved = checkpoint::parse_trainer_state(reader->trainer_state(), reader->step(),
                                            str("checkpoint '", folder.string(), "': trainer state"));
    state.base = checkpoint::base_note_of(*reader);
  });
  Differences different;
  std::exception_ptr refusal;
  if (fault.none()) {
    fault = fault_of(comm, Reads::kOwnPart, [&] {
      try {
        different = differences(rules.inspect, *reader, comm);
      } catch (const Error& e) {
        if (e.is_of_system()) throw;
        refusal = std::current_exception();  // no older checkpoint is taken in its place
      }
    });
  }
  if (!fault.none()) return fault;
  agree(comm, "check checkpoint", [&] {
    in_context("resume", [&] {
      if (refusal) std::rethrow_exception(refusal);
      if (!different.model.empty()) {
        throw Error(Code::kCheckpoint, "checkpoint '", reader->folder().string(),
                    "' is of a different model (checkpoint -> this recipe): ", different.model,
                    "; use the recipe it was made with, or another run.dir");
      }
      require_same_model(*reader, state);
      require_same_data(saved, reader->folder(), state, different.data);
    });
  });
  if (before_loading) fault = before_loading(*reader);
  if (fault.none()) restore_base(state, rules.base, comm);
  if (fault.none()) fault = fault_of(comm, Reads::kOwnPart, [&] { load_slices(*reader, state); });
  if (!fault.none()) return fault;
  keep_trained(state);
  apply_trainer_state(saved, state);
  return fault;
}

/// Restores from memory: each node assembles the checkpoint, and fetches the shards that its ranks read.
/// `sound` becomes the save id of the commit on disk that it vouches for; empty: of none.
Fault restore_from(const checkpoint::MemoryCandidate& candidate, RunMemory& memory, TrainState& state,
                   const Rules& rules, std::string& sound) {
  Communicator& comm = memory.comm();
  const checkpoint::Assembly assembly = memory.assembly(candidate);
  Fault fault = fault_of(comm, Reads::kFromNodes, [&] {
    if (memory.leads()) assembly.begin();
  });
  const auto bring = [&](const checkpoint::Reader& reader) {
    sound = reader.resumed_from();
    const std::vector<int> mine = memory.share_of(shards_to_load(reader, state));
    return fault_of(comm, Reads::kFromNodes, [&] {
      for (const int shard : mine) assembly.bring(shard);
    });
  };
  if (fault.none()) fault = restore(assembly.path(), comm, state, rules, bring);
  if (memory.leads()) checkpoint::Assembly::remove(memory.folder());
  return fault;
}

/// The step in a step folder's name; -1 for an empty name.
std::int64_t step_of(const std::string& folder) {
  const auto name = checkpoint::parse_step_folder(std::filesystem::path(folder).filename().string());
  return name ? name->step : -1;
}

/// Leaves out what was saved to memory after a commit that is no longer on disk, nor a newer one: somebody
/// has removed it to go back. `newest`: step of the newest one on disk.
void forget_rolled_back(std::vector<checkpoint::MemoryCandidate>& remembered, std::int64_t newest,
                        bool tells) {
  std::erase_if(remembered, [&](const checkpoint::MemoryCandidate& one) {
    if (one.newest_commit <= newest) return false;
    if (tells)
      log::warn(str("step ", one.step, " in memory is not used: the checkpoint of step ", one.newest_commit,
                    " that it follows has been removed from disk, so the run goes back to what is there"));
    return true;
  });
}

/// Restores the newest undamaged one of `remembered` that is newer than `step`; nothing if there is none.
/// Each that was tried is removed from there. `no_room`: becomes why one was not restored that may be
/// whole. Collective.
std::optional<Restored> restore_newer(std::int64_t step, std::vector<checkpoint::MemoryCandidate>& remembered,
                                      RunMemory* memory, TrainState& state, const Rules& rules,
                                      checkpoint::KnownSteps& known, std::string& no_room) {
  for (; !remembered.empty() && remembered.front().step > step; remembered.erase(remembered.begin())) {
    const checkpoint::MemoryCandidate& newest = remembered.front();
    const std::string name = str("step ", newest.step, " in memory");
    const auto attempt = [&] { return restore_from(newest, *memory, state, rules, known.resumed_from); };
    const Fault fault = patiently(memory->comm(), name, attempt, kLeaveInMemory);
    if (fault.none()) {
      memory->resumed_from(&newest);
      known.newest_commit = newest.newest_commit;
      return Restored{.memory = memory->holders(newest), .known = known};
    }
    const bool whole = fault.kind == Fault::Kind::kNoRoom;
    if (whole) no_room = str(name, " does not fit where it is needed: ", fault.text);
    if (memory->comm().rank() != 0) continue;
    log::warn(str(name, whole ? " finds no room" : " is DAMAGED",
                  " and is skipped, trying the previous one: ", fault.text));
  }
  return std::nullopt;
}

/// From now on, checkpoints leave out the weights below the adapters that lie in `place` or, where that
/// leaves them out itself, in `beneath`. Collective.
void leave_out(TrainState& state, checkpoint::BaseNote place,
               const std::optional<checkpoint::BaseNote>& beneath, Communicator& comm) {
  checkpoint::BaseNote base = base_of(state.model);
  if (beneath) {
    place = {.folder = beneath->folder, .save_id = beneath->save_id};
    std::erase_if(base.tensors, [&](const auto& one) { return beneath->find(one.info.name) == nullptr; });
  }
  base.folder = place.folder;
  base.save_id = place.save_id;
  if (base.tensors.empty()) return;
  take_fingerprints(base, state.model, comm);
  state.base = std::move(base);
}

}  // namespace

std::optional<Restored> restore_latest(const CheckpointOptions& options, const RunFolder& folder,
                                       Communicator& comm, TrainState& state, const Inspect& inspect,
                                       RunMemory* memory, const std::string& base) {
  const Rules rules{inspect, base};
  std::vector<checkpoint::MemoryCandidate> remembered;
  if (memory != nullptr) remembered = memory->candidates();
  const std::vector<std::string> listed = agreed_candidates(options, folder, comm, !remembered.empty());
  const bool lead = comm.rank() == 0;
  forget_rolled_back(remembered, listed.empty() ? -1 : step_of(listed.front()), lead);
  checkpoint::KnownSteps known;
  std::string no_room;
  const auto from_memory_after = [&](std::int64_t step) {
    return restore_newer(step, remembered, memory, state, rules, known, no_room);
  };
  std::string newest_damage;
  for (const std::string& step : listed) {
    if (auto restored = from_memory_after(step_of(step))) return restored;
    const std::string name = str("checkpoint '", step, "'");
    const Fault fault = patiently(comm, name, [&] { return restore(step, comm, state, rules); });
    const std::string step_name = std::filesystem::path(step).filename().string();
    if (fault.none()) {
      if (memory != nullptr) memory->resumed_from(nullptr);
      known.readable.insert(step_name);
      known.resumed_from = checkpoint::parse_step_folder(step_name).value().save_id;
      known.newest_commit = state.step;
      return Restored{.known = known};
    }
    if (lead) log::warn(str(name, " is DAMAGED and is skipped, trying the previous one: ", fault.text));
    known.damaged.insert(step_name);
    if (newest_damage.empty()) newest_damage = fault.text;
  }
  if (auto restored = from_memory_after(-1)) return restored;
  if (!no_room.empty() && newest_damage.empty()) {
    if (!lead) throw Error::already_reported(Code::kEnvironment);
    throw Error(Code::kEnvironment, "resume: ", no_room,
                "; there is no checkpoint on disk either, so nothing is removed; free some memory "
                "there and start again, or give the state up with echelon-ckpt gc");
  }
  if (newest_damage.empty()) {
    state.base.reset();  // of what is damaged in memory
    if (memory != nullptr) memory->resumed_from(nullptr);
    return std::nullopt;
  }
  if (!lead) throw Error::already_reported(Code::kCheckpoint);
  throw Error(Code::kCheckpoint, "resume: no whole checkpoint in '", folder.checkpoints().string(),
              "'; all were left as they are; newest: ", newest_damage,
              "; restore one from a backup, or use another run.dir");
}

WeightMatch load_initial_weights(const CheckpointOptions& options, Communicator& comm, TrainState& state,
                                 const Inspect& inspect) {
  const std::string what = str("checkpoint.init_from '", options.init_from, "'");
  std::optional<checkpoint::LeasedReader> leased;
  std::optional<checkpoint::BaseNote> beneath;  // what the checkpoint itself leaves out
  WeightMatch match;
  agree(comm, "check initial weights", [&] {
    in_context(what, [&] {
      leased.emplace(options.init_from);
      beneath = checkpoint::base_note_of(leased->reader);
      match = match_weights(leased->reader, beneath, state.model);
      const std::string keys = differences(inspect, leased->reader, comm).base;
      if (keys.empty() && match.whole_below()) return;
      const std::string difference = str(
          "it is of a different model", keys.empty() ? "" : str(" (checkpoint -> this recipe: ", keys, ")"),
          match.whole_below() ? ", whose tensors have the same shapes" : ": " + describe(match));
      const bool all_or_none = match.taken.empty() || beneath;  // a base is read whole
      if (!options.init_partial || all_or_none) {
        throw Error(Code::kCheckpoint, difference, "; ", match.taken.empty() ? "no weight fits: " : "",
                    "use the model it was made with",
                    all_or_none ? ""
                                : str(", or set checkpoint.init_partial: true to take the ",
                                      match.taken.size(), " tensors that fit"));
      }
      if (comm.rank() == 0) log::warn(str(what, ": ", difference, "; ", match.taken.size(), " are taken"));
    });
  });
  if (beneath) {
    in_context(what, [&] {
      load_base(*beneath, {{beneath->folder}, "start from another checkpoint"}, state.model, comm);
    });
  }
  agree_at_length(
      comm, "load initial weights",
      [&] { in_context(what, [&] { load_weights(leased->reader, state.model); }); }, fs::bytes_read);
  if (state.ema != nullptr) state.ema->restart();
  if (!options.init_partial) {
    const std::string folder = std::filesystem::absolute(leased->folder).lexically_normal().string();
    leave_out(state, {.folder = folder, .save_id = leased->reader.save_id()}, beneath, comm);
  }
  return match;
}

void load_folder_weights(const std::filesystem::path& folder, Communicator& comm, TrainState& state,
                         const std::function<void(const families::ModelWeights&)>& inspect) {
  std::optional<families::ModelWeights> weights;
  agree(comm, "check initial weights", [&] {
    weights.emplace(folder, "model.from");
    if (comm.rank() != 0) return;
    weights->check_tied();
    if (inspect) inspect(*weights);
  });
  const auto load = [&] {
    in_context("model.from", [&] {
      load_weights(*weights, state.model);
      weights->source().check_unchanged();
    });
  };
  agree_at_length(comm, "load initial weights", load, fs::bytes_read);
  if (state.ema != nullptr) state.ema->restart();
  leave_out(state, {.folder = std::filesystem::absolute(folder).lexically_normal().string()}, std::nullopt,
            comm);
}

}  // namespace echelon
