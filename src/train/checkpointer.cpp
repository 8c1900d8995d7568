#include "train/checkpointer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

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
                      {"ranks", ranks},
                      {"skipped_steps", state.skipped}};
  if (state.loss_scale.used()) {
    json["loss_scale"] = {{"factor", state.loss_scale.factor()},
                          {"finite_in_a_row", state.loss_scale.finite_in_a_row()}};
  }
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
  state.skipped = json.value("skipped_steps", std::int64_t{0});
  if (json.contains("loss_scale")) {
    state.loss_scale.restore(json["loss_scale"]["factor"].get<double>(),
                             json["loss_scale"]["finite_in_a_row"].get<std::int64_t>());
  }
  state.best.reset();
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

std::vector<std::string> Checkpointer::candidates() const {
  std::vector<std::string> newest_first;
  for (const auto& found : checkpoint::list(folder_->checkpoints())) {
    if (found.committed || !found.problem.empty()) newest_first.push_back(found.folder.string());
    if (!found.committed && found.problem.empty()) {
      log::warn(str("checkpoint '", found.folder.string(),
                    "' was never committed (its save did not end); passed over"));
    }
  }
  std::reverse(newest_first.begin(), newest_first.end());
  if (options_.resume == "must" && newest_first.empty()) {
    throw Error(Code::kUsage, str("checkpoint.resume is 'must', but '", folder_->checkpoints().string(),
                                  "' holds no committed checkpoint; set it to 'auto' for a first start"));
  }
  if (options_.resume == "never" && !newest_first.empty()) {
    throw Error(Code::kUsage,
                str("checkpoint.resume is 'never', but '", folder_->checkpoints().string(),
                    "' holds checkpoints; set it to 'auto' to continue them, or use another run.dir"));
  }
  return newest_first;
}

std::string Checkpointer::restore(const std::filesystem::path& folder, TrainState& state) {
  std::unique_ptr<checkpoint::Reader> reader;
  std::string damage = failure_of([&] { reader = std::make_unique<checkpoint::Reader>(folder); });
  if (!damage.empty()) return damage;
  agree(*comm_, "check checkpoint", [&] {
    in_context("resume", [&] {
      require_same_model(*reader, state);
      apply_trainer_state(reader->trainer_state(), reader->folder(), state);
    });
  });
  return failure_of([&] { load_slices(*reader, state); });
}

std::string Checkpointer::failure_of(const std::function<void()>& body) {
  std::string mine;
  try {
    body();
  } catch (const Error& e) {
    if (e.code() != Code::kCheckpoint) throw;
    mine = e.what();
  }
  for (const Blob& text : comm_->gather_blobs(to_blob(mine), "read checkpoint")) {
    if (!text.empty()) return to_text(text);
  }
  return "";
}

bool Checkpointer::restore_latest(TrainState& state) {
  // Rank 0 looks, all read the same folders: two ranks must not disagree about which one is the newest.
  std::string found;
  agree(*comm_, "find checkpoint", [&] {
    if (comm_->rank() == 0) found = join(candidates(), "\n");
  });
  std::istringstream folders(to_text(comm_->gather_blobs(to_blob(found), "checkpoints").at(0)));
  std::string newest_damage;
  for (std::string folder; std::getline(folders, folder);) {
    const std::string damage = restore(folder, state);
    if (damage.empty()) return true;
    if (comm_->rank() == 0) {
      log::warn(
          str("checkpoint '", folder, "' is DAMAGED and passed over, trying the one before it: ", damage));
    }
    if (newest_damage.empty()) newest_damage = damage;
  }
  if (newest_damage.empty()) return false;
  throw Error(Code::kCheckpoint,
              comm_->rank() != 0 ? ""
                                 : str("resume: no whole checkpoint in '", folder_->checkpoints().string(),
                                       "', and none was touched; newest: ", newest_damage,
                                       "; bring one back from a copy, or start another run.dir"));
}

void Checkpointer::write_and_commit(const TrainState& state, const std::filesystem::path& folder,
                                    const std::string& id) {
  agree(*comm_, "write shard", [&] {
    const StagedSlices staged = stage_slices(state);
    checkpoint::write_shard(folder, comm_->rank(), comm_->size(), id, staged.slices);
  });
  agree(*comm_, "commit", [&] {
    if (comm_->rank() != 0) return;
    checkpoint::commit(folder, {.step = state.step,
                                .save_id = id,
                                .ranks = comm_->size(),
                                .tensors = global_tensors(state),
                                .trainer_state = trainer_state_json(state, comm_->size()),
                                .attachments = attachments_});
  });
}

std::filesystem::path Checkpointer::save(const TrainState& state) {
  std::string id = comm_->rank() == 0 ? checkpoint::new_save_id() : "";
  id = to_text(comm_->gather_blobs(to_blob(id), "save id").at(0));
  const std::filesystem::path folder = folder_->checkpoints() / checkpoint::step_folder_name(state.step, id);
  in_context(str("save step ", state.step, " (earlier checkpoints are untouched)"), [&] {
    try {
      agree(*comm_, "create checkpoint", [&] {
        if (comm_->rank() == 0) fs::make_directories(folder, Code::kCheckpoint);
      });
      write_and_commit(state, folder, id);
    } catch (const Error&) {
      if (comm_->rank() == 0) {
        std::error_code ignored;  // the attempt is worthless either way; its error is the one to report
        std::filesystem::remove_all(folder, ignored);
      }
      throw;
    }
  });
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
