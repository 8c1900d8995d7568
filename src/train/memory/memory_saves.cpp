#include "train/memory/memory_saves.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/caught.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/memory/memory_note.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"

namespace echelon {
namespace {

using checkpoint::NodeSave;
using checkpoint::RankSave;

constexpr int kMostFailures = 3;  // in a row
constexpr int kGenerations = 2;   // the newest whole one, and the next
constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

std::uint64_t sum_of(const std::vector<std::uint64_t>& bytes, const std::vector<int>& ranks) {
  std::uint64_t sum = 0;
  for (const int rank : ranks) sum += bytes[static_cast<std::size_t>(rank)];
  return sum;
}

}  // namespace

MemorySaves::MemorySaves(const CheckpointOptions& options, RunMemory& memory, const TrainState& state,
                         const std::map<std::string, std::string>& attachments)
    : options_(options),
      memory_(&memory),
      timeout_s_(static_cast<double>(options.timeout_s)),
      whole_(memory.resumed_name()) {
  Communicator& comm = memory.comm();
  agree(comm, "shards in memory",
        [&] { layout_ = checkpoint::plan_shard(comm.rank(), comm.size(), "00000000", slices_of(state)); });
  try {
    require_room(layout_->index.file_bytes);
  } catch (const Error& error) {
    // What came from memory must not be lost to a node that has less of it.
    if (error.code() != Code::kUsage || memory_->resumed_name().empty()) throw;
    off_ = true;
    if (comm.rank() == 0)
      log::warn(str(error.what(), "; they are off until the next start, checkpoints on disk go on"));
    return;
  }
  attachments_ = broadcast_value(comm, attachments, "files of a checkpoint");
  if (comm.rank() != 0) return;
  log::info(str("every ", options_.memory_every_steps, " steps the state is saved to '",
                memory_->folder().path().string(), "' in the memory of each node, ",
                memory_->layout().nodes() > 1 ? "with a copy on the next node"
                                              : "without a copy, because there is only one node"));
}

void MemorySaves::require_room(std::uint64_t shard_bytes) {
  Communicator& comm = memory_->comm();
  const std::vector<std::uint64_t> bytes = gather_values(comm, shard_bytes, "bytes of shards");
  agree(comm, "room in memory", [&] {
    if (!memory_->leads()) return;
    const auto& layout = memory_->layout();
    const std::uint64_t own = sum_of(bytes, layout.ranks_of(memory_->node()));
    const std::uint64_t held = sum_of(bytes, layout.held_by(memory_->node()));
    const std::uint64_t need = kGenerations * held;
    const auto limit = static_cast<std::uint64_t>(options_.memory_limit_gib * static_cast<double>(kGib));
    // Memory checkpoints that lie there already are replaced.
    const std::uint64_t left = checkpoint::memory_left(memory_->folder().path()) + memory_->folder().bytes();
    if (need <= left && (limit == 0 || need <= limit)) return;
    const std::string room = need > left ? str(human_bytes(left), " are left there")
                                         : str("checkpoint.memory_limit_gib allows ", human_bytes(limit));
    throw Error(Code::kUsage, "memory checkpoints do not fit on ", layout.host_of(memory_->node()), ": ",
                kGenerations, " of them, each with ", human_bytes(own), " of its own ranks and ",
                human_bytes(held - own), " of copies, need ", human_bytes(need), " in '", options_.memory_dir,
                "', and ", room, "; use more nodes, or set checkpoint.memory_every_steps to 0");
  });
}

SaveReport MemorySaves::report(bool busy) const {
  using State = SaveReport::State;
  try {
    SaveReport mine;
    if (in_flight_) {
      const auto shard =
          in_flight_->shard ? in_flight_->shard->status() : RankSave::Status{RankSave::State::kFailed};
      const auto node =
          in_flight_->node ? in_flight_->node->status() : NodeSave::Status{NodeSave::State::kFailed};
      std::string error = in_flight_->error;
      if (error.empty()) error = shard.error.empty() ? node.error : shard.error;
      const bool runs = shard.state == RankSave::State::kRunning || node.state == NodeSave::State::kRunning;
      mine.state = runs ? State::kWriting : error.empty() ? State::kDone : State::kFailed;
      if (mine.state == State::kFailed) mine.error = error;
    }
    if (busy) mine.state = State::kWriting;
    if (memory_->comm().rank() == 0 && mine.state != State::kWriting)
      mine.next_id = checkpoint::new_save_id();
    return mine;
  } catch (...) {  // whatever it is: the others wait for a word
    return {.state = State::kFailed, .error = caught()};
  }
}

void MemorySaves::failed(std::int64_t step, const std::string& why) {
  ++failures_;
  off_ = failures_ >= kMostFailures;
  if (memory_->comm().rank() != 0) return;
  log::warn(
      str("step ", step, " was not saved to memory: ", why,
          off_ ? str("; that is ", failures_,
                     " in a row: memory checkpoints are off until the next start, checkpoints on disk go on")
               : "; training continues"));
}

std::string MemorySaves::settle(std::int64_t step, bool busy) {
  Communicator& comm = memory_->comm();
  const SaveOutcome outcome = outcome_of(gather_values(comm, report(busy), "state of memory checkpoints"));
  const bool lead = comm.rank() == 0;
  if (outcome.in_flight()) {
    if (lead && !warned_late_)
      log::warn(str("step ", step,
                    " is not saved to memory: an earlier checkpoint is still being written or "
                    "copied; this is said once"));
    warned_late_ = true;
    return "";
  }
  if (in_flight_) {
    const bool whole = outcome.state == SaveOutcome::State::kCommitted;
    if (whole) outdated_ = {std::exchange(whole_, in_flight_->name)};
    std::erase(outdated_, "");  // there was none before
    if (!whole) outdated_.push_back(in_flight_->name);
    const std::string text = str("saved step ", in_flight_->step, " to the memory of ",
                                 counted(memory_->layout().nodes(), "node"));
    if (whole && lead && saved_) log::note(text);
    if (whole && lead && !saved_) log::info(text + "; later ones are noted in logs/ only");
    saved_ = saved_ || whole;
    if (whole) failures_ = 0;
    if (!whole) failed(in_flight_->step, outcome.error.empty() ? outcome.doubt : outcome.error);
    in_flight_.reset();
  }
  return off_ ? "" : outcome.next_id;
}

checkpoint::NodeSavePlan MemorySaves::plan(const TrainState& state, const std::string& id,
                                           const checkpoint::KnownSteps& known,
                                           const std::vector<std::optional<std::uint32_t>>& checksums) const {
  const Communicator& comm = memory_->comm();
  const checkpoint::MemoryFolder& folder = memory_->folder();
  checkpoint::NodeSavePlan plan{.folder = folder.step(state.step, id),
                                .info = {.step = state.step, .save_id = id, .ranks = comm.size()},
                                .secret = memory_->secret(),
                                .timeout_s = timeout_s_};
  const auto& layout = memory_->layout();
  for (const int rank : layout.copied_by(comm.rank())) {
    plan.copies.push_back({rank, layout.host_of(layout.node_of(rank)), memory_->card_of(rank),
                           checksums[static_cast<std::size_t>(rank)]});
    for (const std::string& old : outdated_)
      plan.outdated.push_back(folder.path() / old / checkpoint::shard_file_name(rank, comm.size()));
  }
  if (!memory_->leads()) return plan;
  plan.run_id = folder.id();
  plan.info.tensors = global_tensors(state);
  plan.info.trainer_state = trainer_state_json(state, comm.size());
  plan.info.attachments = attachments_;
  plan.info.resumed_from = known.newest_sound;
  plan.newest_commit = known.newest_commit;
  plan.held = layout.held_by(memory_->node());
  // What a rank that could not begin has left goes, too.
  plan.stays = {whole_, plan.folder.filename().string()};
  plan.run_folder = &folder;
  return plan;
}

std::unique_ptr<RankSave> MemorySaves::start(const TrainState& state, const std::string& id,
                                             const std::shared_ptr<checkpoint::Staging>& staging) const {
  const Communicator& comm = memory_->comm();
  memory_->folder().renew();  // if it is gone
  std::vector<std::filesystem::path> own;
  for (const std::string& old : outdated_) {
    const std::filesystem::path folder = memory_->folder().path() / old;
    own.push_back(folder / checkpoint::shard_file_name(comm.rank(), comm.size()));
    if (!memory_->leads()) continue;
    // Nothing is found of it from now on, on any node.
    fs::remove_tree(folder / checkpoint::kNodeFile, Code::kCheckpoint);
    // Shards of ranks that were on this node then, or of another number of ranks: no rank here replaces them.
    std::set<std::string> replaced;
    for (const int rank : memory_->layout().held_by(memory_->node()))
      replaced.insert(checkpoint::shard_file_name(rank, comm.size()));
    for (const std::filesystem::path& file : checkpoint::entries_of(folder)) {
      if (!replaced.contains(file.filename().string())) own.push_back(file);
    }
  }
  checkpoint::SavePlan shard{.folder = memory_->folder().step(state.step, id),
                             .commit = {.step = state.step, .save_id = id, .ranks = comm.size()},
                             .timeout_s = timeout_s_,
                             .in_memory = true};
  shard.before_write = [own] {
    for (const std::filesystem::path& old : own) fs::remove_tree(old, Code::kCheckpoint);
  };
  return std::make_unique<RankSave>(std::move(shard), checkpoint::replan_shard(*layout_, id),
                                    slices_of(state), staging);
}

void MemorySaves::save(const TrainState& state, const std::shared_ptr<checkpoint::Staging>& staging,
                       bool busy, const checkpoint::KnownSteps& known) {
  const std::string id = settle(state.step, busy);
  if (id.empty()) return;
  InFlight next{.step = state.step, .name = checkpoint::step_folder_name(state.step, id)};
  const auto attempt = [&](const std::function<void()>& body) {
    try {
      body();
    } catch (...) {
      next.error = caught();
    }
  };
  attempt([&] { next.shard = start(state, id, staging); });
  if (next.shard) next.shard->stage();
  state.model.groups().world().check_failure();
  // The checksum of each rank's copy; none: the save could not begin there.
  const auto mine = next.shard ? std::optional(next.shard->blocks_crc()) : std::nullopt;
  const auto checksums = gather_values(memory_->comm(), mine, "checksums of shards");
  if (next.shard) attempt([&] { next.node = std::make_unique<NodeSave>(plan(state, id, known, checksums)); });
  in_flight_ = std::move(next);
}

void MemorySaves::let_go_of_staging(bool last) const {
  if (!in_flight_ || !in_flight_->shard) return;
  if (last) in_flight_->shard->abandon();
  // It ends by itself after timeout_s_, unless the system hangs.
  constexpr double kGrace_s = 10;
  if (in_flight_->shard->wait(timeout_s_ + kGrace_s).state == RankSave::State::kRunning)
    throw Error(Code::kCheckpoint, "'", memory_->folder().path().string(), "' hangs");
}

}  // namespace echelon
