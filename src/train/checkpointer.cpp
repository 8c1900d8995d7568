#include "train/checkpointer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"
#include "comm/agree.h"
#include "train/state_tensors.h"

namespace echelon {
namespace {

Blob to_blob(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string to_text(const Blob& blob) {
  return {reinterpret_cast<const char*>(blob.data()), blob.size()};
}

std::string trainer_state_json(const TrainState& state, int ranks) {
  nlohmann::json json{{"step", state.step},
                      {"next_sample", state.position.next_sample},
                      {"data_fingerprint", state.data.fingerprint()},
                      {"ranks", ranks}};
  if (state.best)
    json["best"] = {{"step", state.best->step}, {"validation_loss", state.best->validation_loss}};
  return json.dump();
}

void apply_trainer_state(const std::string& text, const std::filesystem::path& folder, TrainState& state) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto number = [&](const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number_integer()) {
      throw Error(Code::kCheckpoint,
                  str("checkpoint '", folder.string(), "': trainer state has no number '", key, "'"));
    }
    return json[key].get<std::int64_t>();
  };
  if (number("data_fingerprint") != static_cast<std::int64_t>(state.data.fingerprint())) {
    throw Error(Code::kData,
                str("checkpoint '", folder.string(),
                    "' was trained on other data (data.path, seq_len, shuffle or run.seed differ), so its "
                    "position means nothing here; restore them, or start another run.dir"));
  }
  state.step = number("step");
  state.position.next_sample = number("next_sample");
  if (json.contains("best")) {
    state.best = TrainState::Best{json["best"]["step"].get<std::int64_t>(),
                                  json["best"]["validation_loss"].get<double>()};
  }
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
                           std::map<std::string, std::string> attachments)
    : options_(options), folder_(&folder), comm_(&comm), attachments_(std::move(attachments)) {}

bool Checkpointer::due(std::int64_t step) const {
  return options_.every_steps > 0 && step % options_.every_steps == 0;
}

bool Checkpointer::restore_latest(TrainState& state) {
  // Rank 0 looks, all read the same folder: two ranks must not disagree about which one is the newest.
  std::string newest;
  agree(*comm_, "find checkpoint", [&] {
    if (comm_->rank() != 0) return;
    bool any = false;
    for (const auto& found : checkpoint::list(folder_->checkpoints())) any = any || found.committed;
    if (options_.resume == "must" && !any) {
      throw Error(Code::kUsage, str("checkpoint.resume is 'must', but '", folder_->checkpoints().string(),
                                    "' holds no committed checkpoint; set it to 'auto' for a first start"));
    }
    if (options_.resume == "never" && any) {
      throw Error(Code::kUsage,
                  str("checkpoint.resume is 'never', but '", folder_->checkpoints().string(),
                      "' holds checkpoints; set it to 'auto' to continue them, or use another run.dir"));
    }
    if (any) newest = checkpoint::Reader(folder_->root()).folder().string();
  });
  newest = to_text(comm_->gather_blobs(to_blob(newest), "newest checkpoint").at(0));
  if (newest.empty()) return false;
  agree(*comm_, "restore", [&] {
    in_context("resume", [&] {
      const checkpoint::Reader reader{std::filesystem::path(newest)};
      require_same_model(reader, state);
      apply_trainer_state(reader.trainer_state(), reader.folder(), state);
      load_slices(reader, state);
    });
  });
  return true;
}

void Checkpointer::write_and_commit(const TrainState& state, const std::filesystem::path& folder,
                                    const std::string& id) {
  std::vector<std::byte> mine;
  agree(*comm_, "write shard", [&] {
    const StagedSlices staged = stage_slices(state);
    mine = encode(checkpoint::write_shard(folder, comm_->rank(), comm_->size(), id, staged.slices));
  });
  const std::vector<Blob> all = comm_->gather_blobs(mine, "shard summaries");
  agree(*comm_, "commit", [&] {
    if (comm_->rank() != 0) return;
    std::vector<checkpoint::ShardSummary> shards;
    for (const Blob& blob : all) shards.push_back(checkpoint::decode_summary(blob));
    checkpoint::commit(folder,
                       {.step = state.step,
                        .save_id = id,
                        .tensors = global_tensors(state),
                        .trainer_state = trainer_state_json(state, comm_->size()),
                        .attachments = attachments_},
                       shards);
  });
}

std::filesystem::path Checkpointer::save(const TrainState& state) {
  std::string id = comm_->rank() == 0 ? checkpoint::new_save_id() : "";
  id = to_text(comm_->gather_blobs(to_blob(id), "save id").at(0));
  const std::filesystem::path folder = folder_->checkpoints() / checkpoint::step_folder_name(state.step, id);
  try {
    in_context(str("save step ", state.step), [&] {
      agree(*comm_, "create checkpoint", [&] {
        if (comm_->rank() == 0) fs::make_directories(folder, Code::kCheckpoint);
      });
      write_and_commit(state, folder, id);
    });
  } catch (const Error&) {
    if (comm_->rank() == 0) {
      std::error_code ignored;  // the attempt is worthless either way; its error is the one to report
      std::filesystem::remove_all(folder, ignored);
    }
    throw;
  }
  if (comm_->rank() == 0) {
    try {
      checkpoint::prune(folder_->checkpoints(), options_.keep_last);
    } catch (const Error& e) {
      log::warn(str("old checkpoints were not removed: ", e.what()));  // the save itself is committed
    }
  }
  return folder;
}

}  // namespace echelon
