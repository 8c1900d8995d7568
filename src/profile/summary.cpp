#include "profile/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/str.h"
#include "profile/spans.h"

namespace echelon::profile {
namespace {

constexpr double kMilli = 1e3;
constexpr double kPercent = 100;

double seconds_of(const nlohmann::json& rank, SpanKind kind) {
  return rank["seconds"][std::string(word_of(kind))].get<double>();
}

/// On a device the host's waits are not those for other ranks.
bool on_device(const nlohmann::json& rank_or_summary) {
  return rank_or_summary["device_busy_s"].get<double>() > 0;
}

/// Mean over ranks of `value(rank)`, for one step.
template <class Value>
double mean(const std::vector<nlohmann::json>& ranks, const Value& value) {
  double sum = 0;
  for (const nlohmann::json& rank : ranks)
    sum += value(rank) / std::max<double>(1, rank["steps"].get<double>());
  return sum / static_cast<double>(ranks.size());
}

/// The parts of a step, in their order.
constexpr std::array<std::pair<const char*, SpanKind>, 9> kParts{{{"data_wait", SpanKind::kDataWait},
                                                                  {"forward", SpanKind::kForward},
                                                                  {"backward", SpanKind::kBackward},
                                                                  {"recompute", SpanKind::kRecompute},
                                                                  {"gather_wait", SpanKind::kGatherWait},
                                                                  {"reduce_wait", SpanKind::kReduceWait},
                                                                  {"optimizer", SpanKind::kOptimizer},
                                                                  {"other", SpanKind::kStep},
                                                                  {"save_stall", SpanKind::kSaveStall}}};

nlohmann::json parts_of(const std::vector<nlohmann::json>& ranks) {
  nlohmann::json parts;
  for (const auto& part : kParts)
    parts[part.first] = mean(ranks, [&](const auto& rank) { return seconds_of(rank, part.second); });
  return parts;
}

/// The ranks' rows of one side of the training thread, longest first.
nlohmann::json costs_of(const std::vector<nlohmann::json>& ranks, bool beside) {
  std::map<std::pair<std::string, std::string>, nlohmann::json> sums;
  for (const nlohmann::json& rank : ranks) {
    const double share =
        1 / (std::max<double>(1, rank["steps"].get<double>()) * static_cast<double>(ranks.size()));
    for (const nlohmann::json& row : rank["costs"]) {
      if (row["beside"].get<bool>() != beside) continue;
      nlohmann::json& sum = sums[{row["operation"].get<std::string>(), row["of"].get<std::string>()}];
      if (sum.is_null()) {
        sum = {{"operation", row["operation"]}, {"of", row["of"]}, {"seconds", 0.0}, {"count", 0.0}};
        if (beside) sum["bytes"] = 0.0;
      }
      for (const auto& [key, value] : sum.items()) {
        if (value.is_number()) value = value.get<double>() + share * row[key].get<double>();
      }
    }
  }
  nlohmann::json rows = nlohmann::json::array();
  for (auto& [what, row] : sums) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return a["seconds"].get<double>() > b["seconds"].get<double>();
  });
  return rows;
}

nlohmann::json by_rank(const std::vector<nlohmann::json>& ranks) {
  nlohmann::json rows = nlohmann::json::array();
  for (const nlohmann::json& rank : ranks) {
    const double steps = std::max<double>(1, rank["steps"].get<double>());
    const double waits =
        on_device(rank) ? rank["engine_comm_wait_s"].get<double>()
                        : seconds_of(rank, SpanKind::kGatherWait) + seconds_of(rank, SpanKind::kReduceWait);
    rows.push_back({{"rank", rank["rank"]},
                    {"host", rank["host"]},
                    {"step_s", rank["step_s"].get<double>() / steps},
                    {"gather_wait_s", seconds_of(rank, SpanKind::kGatherWait) / steps},
                    {"reduce_wait_s", seconds_of(rank, SpanKind::kReduceWait) / steps},
                    {"comm_wait_s", waits / steps},
                    {"engine_comm_wait_s", rank["engine_comm_wait_s"].get<double>() / steps},
                    {"work_s", (rank["step_s"].get<double>() - waits) / steps},
                    {"clock_offset_us", rank["clock_offset_s"].get<double>() * 1e6},
                    {"clock_uncertainty_us", rank["clock_uncertainty_s"].get<double>() * 1e6},
                    {"dropped_spans", rank["dropped_spans"]}});
  }
  return rows;
}

/// The forecast's values beside the measured ones; the largest differences first.
nlohmann::json against_plan(const nlohmann::json& summary, const nlohmann::json& forecast) {
  if (!forecast.is_object() || !forecast.contains("predicted") || !forecast["predicted"].is_object())
    return {{"missing", "the run folder has no forecast of this run"}};
  const nlohmann::json& plan = forecast["predicted"];
  if (!plan.contains("step_time_s")) {
    return {{"missing",
             "the forecast has no times: there is no profile of these CPU ranks (`echelon doctor job "
             "--calibrate` makes one, and `echelon plan --gpu FILE` uses it)"}};
  }
  const nlohmann::json& parts = summary["parts_s"];
  const auto part = [&parts](const char* name) { return parts[name].get<double>(); };
  const auto planned = [&plan](const char* object, const char* name) {
    return plan.contains(object) ? plan[object].value(name, 0.0) : 0.0;
  };
  nlohmann::json rows = nlohmann::json::array();
  const auto add = [&rows](const char* what, double planned_s, double measured_s) {
    rows.push_back({{"what", what},
                    {"planned_s", planned_s},
                    {"measured_s", measured_s},
                    {"difference_s", measured_s - planned_s}});
  };
  add("step", plan["step_time_s"].get<double>(), summary["step_s"].get<double>());
  if (on_device(summary)) {
    add("waiting for gathers and reductions", planned("waits_s", "gather") + planned("waits_s", "reduce"),
        summary["comm_wait_s"].get<double>());
  } else {
    add("compute", planned("busy_s", "compute"),
        part("forward") + part("backward") + part("recompute") + part("optimizer"));
    add("waiting for gathers", planned("waits_s", "gather"), part("gather_wait"));
    add("waiting for reductions", planned("waits_s", "reduce"), part("reduce_wait"));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return std::abs(a["difference_s"].get<double>()) > std::abs(b["difference_s"].get<double>());
  });
  return {{"differences", rows}};
}

std::string ms(const nlohmann::json& seconds) {
  return str(std::setw(11), fixed(seconds.get<double>() * kMilli, 3), " ms");
}

std::string share(double seconds, double step_s) {
  return str(std::setw(7), fixed(kPercent * seconds / step_s, 1), " %  ");
}

constexpr std::size_t kShown = 30;
constexpr std::size_t kNameLength = 100;  ///< of kernels, whose names list their types

std::string cost_lines(const nlohmann::json& rows, double step_s) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, rows.size()); ++i) {
    const nlohmann::json& row = rows[i];
    const double seconds = row["seconds"].get<double>();
    text += str(ms(row["seconds"]), share(seconds, step_s), row["operation"].get<std::string>(), ' ',
                row["of"].get<std::string>().substr(0, kNameLength));
    const double count = row["count"].get<double>();
    if (count != 1) text += str(" x ", fixed(count, count == std::round(count) ? 0 : 1));
    const double bytes = row.value("bytes", 0.0);
    if (bytes > 0) text += str(", ", human_bytes(bytes));
    text += '\n';
  }
  if (rows.size() > kShown) text += str("  and ", rows.size() - kShown, " more in summary.json\n");
  return text;
}

std::string plan_lines(const nlohmann::json& plan) {
  if (plan.contains("missing")) return str("\nplan: ", plan["missing"].get<std::string>(), '\n');
  std::string text = "\nagainst the plan, the largest difference first:\n     planned     measured\n";
  for (const nlohmann::json& row : plan["differences"])
    text += str(ms(row["planned_s"]), ms(row["measured_s"]), "  ", row["what"].get<std::string>(), '\n');
  return text;
}

}  // namespace

nlohmann::json summarize(const ProfileRange& range, const std::vector<nlohmann::json>& ranks,
                         const nlohmann::json& forecast) {
  nlohmann::json summary{
      {"steps", {range.first, range.last}},
      {"ranks", ranks.size()},
      {"step_s", mean(ranks, [](const nlohmann::json& rank) { return rank["step_s"].get<double>(); })},
      {"parts_s", parts_of(ranks)},
      {"engine_comm_wait_s",
       mean(ranks, [](const nlohmann::json& rank) { return rank["engine_comm_wait_s"].get<double>(); })},
      {"by_rank", by_rank(ranks)},
      {"device_busy_s",
       mean(ranks, [](const nlohmann::json& rank) { return rank["device_busy_s"].get<double>(); })},
      {"costs", costs_of(ranks, false)},
      {"beside", costs_of(ranks, true)}};
  double uncertainty = 0;
  double comm_wait_s = 0;
  for (const nlohmann::json& row : summary["by_rank"]) {
    uncertainty = std::max(uncertainty, row["clock_uncertainty_us"].get<double>());
    comm_wait_s += row["comm_wait_s"].get<double>() / static_cast<double>(ranks.size());
  }
  summary["clock_uncertainty_us"] = uncertainty;
  summary["comm_wait_s"] = comm_wait_s;
  summary["plan"] = against_plan(summary, forecast);
  return summary;
}

std::string summary_text(const nlohmann::json& s) {
  const double step_s = std::max(s["step_s"].get<double>(), 1e-12);
  std::string text =
      str("steps ", s["steps"][0].get<std::int64_t>(), " to ", s["steps"][1].get<std::int64_t>(), " of ",
          s["ranks"].get<std::size_t>(), " ranks; times are means over ranks, for one step of ",
          fixed(step_s * kMilli, 3), " ms\n");
  text +=
      str("clocks of the ranks agree within ", fixed(s["clock_uncertainty_us"].get<double>(), 1), " us\n\n");
  for (const auto& part : kParts)
    text += str(ms(s["parts_s"][part.first]), share(s["parts_s"][part.first].get<double>(), step_s),
                part.first, '\n');
  text += str("\nexposed communication: ", fixed(s["comm_wait_s"].get<double>() * kMilli, 3),
              " ms of a step; by the engine's account ",
              fixed(s["engine_comm_wait_s"].get<double>() * kMilli, 3), " ms\n");
  if (on_device(s)) {
    const double busy_s = s["device_busy_s"].get<double>();
    text += str("the device was busy for ", fixed(busy_s * kMilli, 3), " ms of a step, ",
                fixed(kPercent * busy_s / step_s, 1),
                " %; what the training thread did is when it issued work, not when the device did it\n");
  }
  text += "\nmost time of the training thread, what is nested left out:\n" + cost_lines(s["costs"], step_s);
  text += "\nmost time beside it:\n" + cost_lines(s["beside"], step_s);
  text += plan_lines(s["plan"]);
  text += "\nrank          step         work      waiting  host\n";
  for (const nlohmann::json& row : s["by_rank"]) {
    text += str(std::setw(4), row["rank"].get<int>(), ms(row["step_s"]), ms(row["work_s"]).substr(1),
                ms(row["comm_wait_s"]).substr(1), "  ", row["host"].get<std::string>());
    if (const auto dropped = row["dropped_spans"].get<std::uint64_t>(); dropped > 0)
      text += str("; ", dropped, " spans of the next step did not fit");
    text += '\n';
  }
  return text;
}

}  // namespace echelon::profile
