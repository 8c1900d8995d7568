#include "train/trainer_state.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"

namespace echelon {

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

}  // namespace echelon
