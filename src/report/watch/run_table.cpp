#include "report/watch/run_table.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "report/charts/text.h"

namespace echelon::report {
namespace {

constexpr const char* kNotKnown = "-";

RunRow row_of(const fs::Path& folder, double now_s) {
  RunReader reader(folder);
  const RunRecord run = reader.read(now_s);
  const auto last = [&](const char* name) -> std::optional<double> {
    const Series* series = reader.metrics().find(name);
    return series == nullptr ? std::nullopt : std::optional(series->last().y);
  };
  RunRow row{.folder = folder, .state = run.state, .step = run.step, .steps = run.steps};
  row.loss = last("loss");
  row.validation_loss = last("validation_loss");
  row.rate = last("tokens_per_s");
  if (!run.checkpoints.empty()) row.saved_step = run.checkpoints.back().step;
  row.changed_s = run.changed_s;
  return row;
}

void add_runs(const fs::Path& folder, int depth, double now_s, std::vector<RunRow>& runs) {
  if (holds_run(folder)) {
    runs.push_back(row_of(folder, now_s));
    return;
  }
  if (depth == kDeepest) return;
  std::error_code passed_over;
  for (const auto& entry : std::filesystem::directory_iterator(folder, passed_over)) {
    const bool hidden = entry.path().filename().string().starts_with('.');
    if (!hidden && !entry.is_symlink(passed_over) && entry.is_directory(passed_over))
      add_runs(entry.path(), depth + 1, now_s, runs);
  }
}

std::string number(const std::optional<double>& value, Quantity quantity) {
  return value ? shown(*value, quantity) : kNotKnown;
}

std::string steps(std::int64_t count) {
  return human_count(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)));
}

std::array<std::string, 8> cells(const RunRow& run, double now_s) {
  return {foreign_text(run.folder.string()),
          std::string(word_of(run.state)),
          str(steps(run.step), run.steps ? "/" + steps(*run.steps) : ""),
          number(run.loss, Quantity::kNumber),
          number(run.validation_loss, Quantity::kNumber),
          number(run.rate, Quantity::kNumber),
          run.saved_step ? steps(*run.saved_step) : kNotKnown,
          shown_time(std::max(0.0, std::floor(now_s - run.changed_s))) + " ago"};
}

template <class T>
nlohmann::ordered_json json_of(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

std::vector<RunRow> find_runs(const fs::Path& folder, double now_s) {
  if (!std::filesystem::is_directory(folder))
    throw Error(Code::kUsage, "'", printable(folder.string()),
                "' is not a folder; name one that holds run folders, such as runs");
  std::vector<RunRow> runs;
  add_runs(folder, 0, now_s, runs);
  std::ranges::sort(runs, [](const RunRow& a, const RunRow& b) {
    return a.changed_s != b.changed_s ? a.changed_s > b.changed_s : a.folder < b.folder;
  });
  return runs;
}

std::vector<std::string> table(const std::vector<RunRow>& runs, double now_s) {
  std::vector<std::array<std::string, 8>> rows{
      {"run", "state", "step", "loss", "validation", "tokens/s", "saved", "changed"}};
  for (const RunRow& run : runs) rows.push_back(cells(run, now_s));
  std::array<std::size_t, 8> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  constexpr std::size_t kTexts = 2;  // on the left; numbers are on the right
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (i < kTexts ? row[i] + space : space + row[i]);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

nlohmann::ordered_json json_of(const std::vector<RunRow>& runs) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const RunRow& run : runs) {
    all.push_back({{"folder", run.folder.string()},
                   {"state", word_of(run.state)},
                   {"step", run.step},
                   {"steps", json_of(run.steps)},
                   {"loss", json_of(run.loss)},
                   {"validation_loss", json_of(run.validation_loss)},
                   {"tokens_per_s", json_of(run.rate)},
                   {"saved_step", json_of(run.saved_step)},
                   {"changed", run.changed_s}});
  }
  return all;
}

}  // namespace echelon::report
