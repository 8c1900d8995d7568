#include "checkpoint/format/trainer_state.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "checkpoint/format/json.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint64_t kMaxSample = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxFingerprint = std::numeric_limits<std::uint32_t>::max();

std::int64_t count(const Json& object, const char* key, std::uint64_t max, const std::string& what) {
  return static_cast<std::int64_t>(number(object, key, max, what));
}

/// JSON cannot express NaN and infinity; writers put null instead.
double finite(const Json& object, const char* key, const std::string& what) {
  const Json& value = member(object, key, what);
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    throw Error(Code::kCheckpoint, what, ": '", key, "' must be a finite number");
  return value.get<double>();
}

std::optional<TrainerState::LossScale> parse_loss_scale(const Json& json, const std::string& what) {
  if (!json.contains("loss_scale")) return std::nullopt;
  const Json& scale = json["loss_scale"];
  const TrainerState::LossScale found{finite(scale, "factor", what),
                                      count(scale, "finite_in_a_row", kMaxStep, what)};
  if (found.factor <= 0) throw Error(Code::kCheckpoint, what, ": 'factor' of the loss scale must be above 0");
  return found;
}

std::optional<TrainerState::Best> parse_best(const Json& json, const std::string& what) {
  if (!json.contains("best")) return std::nullopt;
  const Json& best = json["best"];
  TrainerState::Best found{.step = count(best, "step", kMaxStep, what)};
  if (const auto task = best.find("task"); task != best.end()) {
    if (!task->is_string()) throw Error(Code::kCheckpoint, what, ": 'task' must be a text");
    found.task = task->get<std::string>();
  }
  found.value = finite(best, found.task.empty() ? "validation_loss" : "score", what);
  if (best.contains("data_fingerprint"))
    found.data = static_cast<std::uint32_t>(number(best, "data_fingerprint", kMaxFingerprint, what));
  return found;
}

TrainerState parse(const Json& json, std::int64_t step, const std::string& what) {
  TrainerState state{
      .step = count(json, "step", kMaxStep, what),
      .next_sample = count(json, "next_sample", kMaxSample, what),
      .data_fingerprint = static_cast<std::uint32_t>(number(json, "data_fingerprint", kMaxFingerprint, what)),
      .loss_scale = parse_loss_scale(json, what),
      .best = parse_best(json, what)};
  if (json.contains("ranks")) state.ranks = static_cast<int>(count(json, "ranks", kMaxRanks, what));
  if (json.contains("skipped_steps")) state.skipped_steps = count(json, "skipped_steps", kMaxStep, what);
  if (json.contains("skipped_in_a_row"))
    state.skipped_in_a_row = count(json, "skipped_in_a_row", kMaxStep, what);
  if (json.contains("tokens")) state.tokens = count(json, "tokens", kMaxSample, what);
  const auto refuse = [&](const char* key, std::int64_t value) {
    throw Error(Code::kCheckpoint, what, ": '", key, "' is ", value, " in the checkpoint of step ", step);
  };
  if (state.step != step) refuse("step", state.step);
  if (state.skipped_steps > step) refuse("skipped_steps", state.skipped_steps);
  if (state.skipped_in_a_row > state.skipped_steps) refuse("skipped_in_a_row", state.skipped_in_a_row);
  if (state.best && state.best->step > step) refuse("step' of 'best", state.best->step);
  return state;
}

}  // namespace

std::string trainer_state_text(const TrainerState& state) {
  Json json{{"step", state.step},
            {"next_sample", state.next_sample},
            {"data_fingerprint", state.data_fingerprint},
            {"ranks", state.ranks},
            {"skipped_steps", state.skipped_steps},
            {"skipped_in_a_row", state.skipped_in_a_row}};
  if (state.tokens) json["tokens"] = *state.tokens;
  if (state.loss_scale) {
    json["loss_scale"] = {{"factor", state.loss_scale->factor},
                          {"finite_in_a_row", state.loss_scale->finite_in_a_row}};
  }
  if (state.best) {
    Json& best = json["best"] = {{"step", state.best->step}};
    if (!state.best->task.empty()) best["task"] = state.best->task;
    best[state.best->task.empty() ? "validation_loss" : "score"] = state.best->value;
    if (state.best->data) best["data_fingerprint"] = *state.best->data;
  }
  std::string text = json.dump();
  (void)parse_trainer_state(text, state.step, "trainer state");  // never commit what a reader would refuse
  return text;
}

TrainerState parse_trainer_state(const std::string& text, std::int64_t step, const std::string& what) {
  return parse(parse_json(text, what), step, what);
}

void check_trainer_state(const std::string& text, std::int64_t step, const std::string& what) {
  const Json json = parse_json(text, what);
  // Only a trainer stores a position in the data.
  if (json.contains("next_sample") || json.contains("data_fingerprint")) {
    (void)parse(json, step, what);
  } else {
    (void)parse_best(json, what);  // prune and consolidate use it
  }
}

std::optional<TrainerState::Best> best_of(const std::string& text, const std::string& what) {
  return parse_best(parse_json(text, what), what);
}

}  // namespace echelon::checkpoint
