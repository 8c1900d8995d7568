#include "run/goodput.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_json.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, kSpentKinds> kNames{"start",  "train", "validate", "stall", "lost", "idle",
                                                      "detect", "leave", "launch",   "load",  "redo"};
constexpr std::size_t kAlways = 6;  // those that every file has; the others are newer, and often 0

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Code::kEnvironment, "not written by this program: " + what);
}

const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  if (!object.is_object() || !object.contains(name)) refuse(str("no ", name));
  return object[name];
}

double number(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = member(object, name);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
    refuse(str(name, " is not a number of at least 0"));
  return value.get<double>();
}

std::int64_t count(const nlohmann::json& object, const char* name) {
  if (!member(object, name).is_number_integer() || number(object, name) > 1e15)
    refuse(str(name, " is not a count"));
  return object[name].get<std::int64_t>();
}

std::string text(const nlohmann::json& object, const char* name) {
  if (!member(object, name).is_string()) refuse(str(name, " is not text"));
  return object[name].get<std::string>();
}

std::optional<double> perhaps(const nlohmann::json& object, const char* name) {
  if (member(object, name).is_null()) return std::nullopt;
  return number(object, name);
}

StartEnd end_of(const nlohmann::json& start) {
  const auto end = choice_of<StartEnd>(text(start, "end"));
  if (!end) refuse("end is not a known word");
  return *end;
}

std::vector<std::string> names(const nlohmann::json& object, const char* name) {
  const nlohmann::json& list = member(object, name);
  std::vector<std::string> found;
  if (!list.is_array()) refuse(str(name, " is not a list"));
  for (const nlohmann::json& entry : list) {
    if (!entry.is_string()) refuse(str(name, " is not a list of texts"));
    found.push_back(entry.get<std::string>());
  }
  return found;
}

InPlace parse_in_place(const nlohmann::json& json) {
  return {.failed_s = number(json, "failed"),
          .cause = text(json, "cause"),
          .left_out = names(json, "left_out"),
          .nodes = names(json, "nodes"),
          .redo_until = count(json, "redo_until")};
}

RunStart parse_start(const nlohmann::json& json) {
  RunStart start{.job = text(json, "job"),
                 .restart = count(json, "restart"),
                 .ranks = count(json, "ranks"),
                 .began_s = number(json, "began"),
                 .ended_s = number(json, "ended"),
                 .end = end_of(json),
                 .first_step = count(json, "first_step"),
                 .last_step = count(json, "last_step"),
                 .saved_step = count(json, "saved_step"),
                 .until_saved_s = number(json, "train_until_saved")};
  const nlohmann::json& seconds = member(json, "seconds");
  for (std::size_t i = 0; i < kSpentKinds; ++i) {
    if (i < kAlways || seconds.contains(kNames[i])) start.seconds[i] = number(seconds, kNames[i]);
  }
  if (json.contains("restarted")) start.in_place = parse_in_place(member(json, "restarted"));
  const nlohmann::json& took = member(json, "took");
  start.took = {perhaps(took, "step"), perhaps(took, "save"), perhaps(took, "validation")};
  return start;
}

Json json_of(const std::optional<double>& seconds) {
  return seconds ? Json(rounded(*seconds, 3)) : Json(nullptr);
}

Json json_of(const SpentSeconds& seconds) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kSpentKinds; ++i) {
    if (i < kAlways || seconds[i] > 0) json[kNames[i]] = rounded(seconds[i], 3);
  }
  return json;
}

Json json_of(const RunStart& start) {
  Json json{{"job", start.job},
            {"restart", start.restart},
            {"ranks", start.ranks},
            {"began", rounded(start.began_s, 3)},
            {"ended", rounded(start.ended_s, 3)},
            {"end", word_of(start.end)},
            {"first_step", start.first_step},
            {"last_step", start.last_step},
            {"saved_step", start.saved_step},
            {"train_until_saved", rounded(start.until_saved_s, 3)},
            {"seconds", json_of(start.seconds)},
            {"took",
             {{"step", json_of(start.took.step)},
              {"save", json_of(start.took.save)},
              {"validation", json_of(start.took.validation)}}}};
  if (!start.in_place) return json;
  json["in_place"] = true;
  json["restarted"] = {{"failed", rounded(start.in_place->failed_s, 3)},
                       {"cause", start.in_place->cause},
                       {"left_out", start.in_place->left_out},
                       {"nodes", start.in_place->nodes},
                       {"redo_until", start.in_place->redo_until}};
  return json;
}

struct Total {
  double allocated_s = 0;
  SpentSeconds seconds{};

  explicit Total(const std::vector<RunStart>& starts) {
    for (const RunStart& start : starts) {
      allocated_s += start.ended_s - start.began_s;
      for (std::size_t i = 0; i < kSpentKinds; ++i) seconds[i] += start.seconds[i];
    }
  }
  [[nodiscard]] double share() const {
    const double good = seconds[static_cast<std::size_t>(Spent::kTrain)] +
                        seconds[static_cast<std::size_t>(Spent::kValidate)];
    return allocated_s > 0 ? good / allocated_s : 0;
  }
};

}  // namespace

void RunStart::lose_after(std::int64_t step) {
  // Training counts from the step that was not redone.
  const std::int64_t begin = std::max(first_step, in_place ? in_place->redo_until : 0);
  if (step >= last_step || last_step <= begin) return;
  const std::int64_t saved = std::clamp(saved_step, begin, last_step);
  const double all_s = (*this)[Spent::kTrain] + (*this)[Spent::kLost];
  const double saved_s = std::min(until_saved_s, all_s);
  // The time is known at three steps (first, saved, last); between them, steps count as equally long.
  double kept_s = 0;
  if (step >= saved) {
    kept_s = saved_s +
             (all_s - saved_s) * static_cast<double>(step - saved) / static_cast<double>(last_step - saved);
  } else if (step > begin) {
    kept_s = saved_s * static_cast<double>(step - begin) / static_cast<double>(saved - begin);
  }
  // A lost step stays lost, even if a later start resumes further on.
  const double lost_s = std::max((*this)[Spent::kLost], all_s - kept_s);
  (*this)[Spent::kLost] = lost_s;
  (*this)[Spent::kTrain] = all_s - lost_s;
}

Goodput Goodput::parse(const std::string& json) {
  const ForeignJson read = read_foreign_json(json);
  if (!read.problem.empty()) refuse(read.problem);
  const nlohmann::json& starts = member(read.value, "starts");
  if (!starts.is_array()) refuse("starts is not a list");
  return {.starts = mapped(starts, parse_start)};
}

std::string Goodput::to_json() const {
  const Total total(starts);
  Json json{{"starts", Json::array()}, {"total", {{"allocated", rounded(total.allocated_s, 3)}}}};
  for (const RunStart& start : starts) json["starts"].push_back(json_of(start));
  json["total"].update(json_of(total.seconds));
  json["goodput"] = std::round(total.share() * 1e4) / 1e4;
  return json.dump(1) + "\n";
}

std::string Goodput::restarts() const {
  std::string lines;
  for (std::size_t n = 1; n < starts.size(); ++n) {
    const RunStart& start = starts[n];
    const RunStart& before = starts[n - 1];
    if (!start.in_place) continue;
    const Json line{{"time", rounded(start.began_s, 3)},
                    {"job", start.job},
                    {"cause", start.in_place->cause},
                    {"left_out", start.in_place->left_out},
                    {"nodes", start.in_place->nodes},
                    {"seconds",
                     {{"detect", rounded(before[Spent::kDetect], 3)},
                      {"leave", rounded(before[Spent::kLeave], 3)},
                      {"launch", rounded(start[Spent::kLaunch], 3)},
                      {"load", rounded(start[Spent::kLoad], 3)},
                      {"redo", rounded(start[Spent::kRedo], 3)}}},
                    {"from_step", before.last_step},
                    {"resumed_step", start.first_step}};
    lines += line.dump() + "\n";
  }
  return lines;
}

std::string Goodput::summary() const {
  const Total total(starts);
  const bool one = starts.size() == 1;
  std::string line =
      str("goodput ", std::round(total.share() * 1e3) / 10, " % of ", describe_seconds(total.allocated_s),
          one ? "" : str(" in ", starts.size(), " starts"), ":");
  for (std::size_t i = 0; i < kSpentKinds; ++i) {
    const double seconds = total.seconds[i];
    if (i >= kAlways && seconds < 0.05) continue;
    line += str(i == 0 ? " " : ", ", kNames[i], " ",
                seconds < 9.95 ? std::round(seconds * 10) / 10 : std::round(seconds));
  }
  return line;
}

}  // namespace echelon
