#include <algorithm>
#include <cmath>

#include "base/foreign_text.h"
#include "base/str.h"
#include "report/page/common.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

std::string value_of(const std::optional<double>& value, bool bytes) {
  return value ? shown(*value, bytes ? Quantity::kBytes : Quantity::kSeconds) : "-";
}

/// "+4.2 %": how far the measured value is from the predicted one.
std::string deviation(double predicted, double measured) {
  if (!(predicted > 0)) return "-";
  const double percent = 100 * (measured - predicted) / predicted;
  constexpr double kShownAsZero = 0.05;
  return str(percent > kShownAsZero ? "+" : "", trimmed(std::fabs(percent) < kShownAsZero ? 0 : percent, 1),
             " %");
}

/// A number of the comparison of runs.
struct Figure {
  const char* name;
  const char* series;
  Quantity quantity;
  enum class Of { kLast, kLeast, kMean } of;
};

constexpr std::array kFigures{
    Figure{"loss, last", "loss", Quantity::kNumber, Figure::Of::kLast},
    Figure{"loss, least", "loss", Quantity::kNumber, Figure::Of::kLeast},
    Figure{"validation loss, least", "validation_loss", Quantity::kNumber, Figure::Of::kLeast},
    Figure{"validation accuracy, last", "validation_accuracy", Quantity::kShare, Figure::Of::kLast},
    Figure{"tokens/s, mean", "tokens_per_s", Quantity::kNumber, Figure::Of::kMean},
    Figure{"samples/s, mean", "samples_per_s", Quantity::kNumber, Figure::Of::kMean},
    Figure{"step time, mean", "step_time_s", Quantity::kSeconds, Figure::Of::kMean},
    Figure{"waiting for others, mean", "comm_wait_s", Quantity::kSeconds, Figure::Of::kMean},
    Figure{"waiting for data, mean", "data_wait_s", Quantity::kSeconds, Figure::Of::kMean},
    Figure{"MFU, mean", "mfu", Quantity::kShare, Figure::Of::kMean},
    Figure{"peak host memory", "peak_rss_bytes", Quantity::kBytes, Figure::Of::kLast},
    Figure{"peak device memory", "peak_device_bytes", Quantity::kBytes, Figure::Of::kLast},
    Figure{"sent in a step", "sent_bytes", Quantity::kBytes, Figure::Of::kLast}};

std::optional<double> number_of(const MetricsLog& metrics, const Figure& figure) {
  const Series* series = metrics.find(figure.series);
  if (series == nullptr) return std::nullopt;
  switch (figure.of) {
    case Figure::Of::kLast: return series->last().y;
    case Figure::Of::kLeast: return series->least().y;
    case Figure::Of::kMean: return series->mean();
  }
  return std::nullopt;
}

/// The first run's value, and what the others' differ from it by.
std::vector<std::string> compared(const std::string& name, const std::vector<std::optional<double>>& values,
                                  Quantity quantity) {
  std::vector<std::string> row{name};
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string cell = values[i] ? shown(*values[i], quantity) : "-";
    if (i > 0 && values[i] && values[0] && *values[0] != 0) {
      const double percent = 100 * (*values[i] - *values[0]) / std::fabs(*values[0]);
      cell += str(" (", percent > 0 ? "+" : "", trimmed(percent, 1), " %)");
    }
    row.push_back(std::move(cell));
  }
  return row;
}

}  // namespace

std::string predictions(const RunView& view) {
  if (view.run.predictions.empty())
    return section("forecast", "Predicted and measured", paragraph("There is no forecast.json.", "note"));
  Table table{.columns = {"of a rank", "predicted", "measured", "deviation"},
              .caption = "What `echelon plan` predicts for the run, and what it measured"};
  for (const Prediction& one : view.run.predictions) {
    const std::string name = one.group == "memory category" ? "memory: " + one.name : one.name;
    table.rows.push_back({name, value_of(one.predicted, one.bytes), value_of(one.measured, one.bytes),
                          one.predicted && one.measured ? deviation(*one.predicted, *one.measured) : "-"});
  }
  std::string html = "<div class=\"wide\">" + html_table(table, "data") + "</div>";
  const bool timed = std::ranges::any_of(
      view.run.predictions, [](const Prediction& p) { return p.group == "time" && p.predicted; });
  const auto far = [](const Prediction& p) {
    return p.group == "checkpoint" && p.predicted && p.measured &&
           std::max(*p.predicted, *p.measured) > 2 * std::min(*p.predicted, *p.measured);
  };
  if (std::ranges::any_of(view.run.predictions, far))
    html += paragraph(
        "A save is predicted from its bytes and an assumed disk; making files and committing them takes time "
        "of its own, which counts most in small ones.",
        "note");
  const bool planned =
      std::ranges::any_of(view.run.predictions, [](const Prediction& p) { return p.predicted.has_value(); });
  if (!planned)
    html += paragraph("A run is planned ten seconds after its first step; this one ended before.", "note");
  else if (!timed)
    html += paragraph(
        "No time of a step was predicted: it needs a profile of the device, see `echelon doctor job "
        "--calibrate`.",
        "note");
  return section("forecast", "Predicted and measured", html);
}

std::string environment(const RunView& view) {
  std::string html;
  if (!view.run.log.environment.empty()) {
    html += "<ul class=\"plain wide\">";
    for (const std::string& line : view.run.log.environment) html += str("<li>", as_html(line), "</li>");
    html += "</ul>";
  }
  if (view.run.recipe.empty()) return section("environment", "Environment and recipe", html);
  Table set{.columns = {"key", "value", "from"}, .caption = "Values that are no defaults"};
  Table all{.columns = set.columns};
  for (const RecipeValue& value : view.run.recipe) {
    all.rows.push_back({value.key, value.value, value.origin});
    if (value.origin != "default") set.rows.push_back(all.rows.back());
  }
  html += "<div class=\"wide\">";
  if (!set.rows.empty()) html += html_table(set, "code");
  html += str("</div><details class=\"wide\"><summary>All ", all.rows.size(),
              " keys of the resolved recipe</summary>", html_table(all, "code"), "</details>");
  return section("environment", "Environment and recipe", html);
}

std::string side_by_side(const std::vector<RunView>& runs) {
  const std::vector<std::string> labels = labels_of(runs);
  Table table{.columns = {""},
              .caption = "Numbers of the runs; in brackets how far they are from the first run's"};
  table.columns.insert(table.columns.end(), labels.begin(), labels.end());
  std::vector<std::string> folders{"folder"}, states{"state"}, machines{"program and ranks"};
  std::vector<std::optional<double>> steps, allocated, good;
  for (const RunView& view : runs) {
    folders.push_back(view.run.folder.string());
    states.emplace_back(word_of(view.run.state));
    machines.push_back(view.run.log.environment.empty() ? "-" : view.run.log.environment.front());
    steps.emplace_back(static_cast<double>(view.run.step));
    const bool known = view.run.account.allocated_s > 0;
    allocated.push_back(known ? std::optional(view.run.account.allocated_s) : std::nullopt);
    good.push_back(known ? std::optional(static_cast<double>(view.run.account.good_per_mille()) / 1000)
                         : std::nullopt);
  }
  table.rows = {folders,
                states,
                machines,
                compared("steps", steps, Quantity::kStep),
                compared("allocated", allocated, Quantity::kSeconds),
                compared("goodput", good, Quantity::kShare)};
  for (const Figure& figure : kFigures) {
    const auto values = mapped(runs, [&](const RunView& view) { return number_of(view.metrics, figure); });
    const bool any = std::ranges::any_of(values, [](const auto& value) { return value && *value != 0; });
    if (any) table.rows.push_back(compared(figure.name, values, figure.quantity));
  }
  std::string html = "<div class=\"wide\">" + html_table(table, "even");
  Table keys{.columns = {"key"}, .caption = "What differs in their recipes"};
  keys.columns.insert(keys.columns.end(), labels.begin(), labels.end());
  for (const Difference& one :
       differences(mapped(runs, [](const RunView& view) { return view.run.recipe; }))) {
    keys.rows.push_back({one.key});
    keys.rows.back().insert(keys.rows.back().end(), one.values.begin(), one.values.end());
  }
  html += keys.rows.empty() ? paragraph("Their recipes are the same.", "note") : html_table(keys, "code");
  return section("compared", "Side by side", html + "</div>");
}

std::string what_is_missing(const std::vector<RunView>& runs) {
  const std::vector<std::string> labels = labels_of(runs);
  std::string list;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const std::string& sentence : runs[i].run.missing)
      list += str("<li>", as_html(runs.size() > 1 ? str(labels[i], ": ", sentence) : sentence), "</li>\n");
  }
  if (list.empty())
    return section(
        "missing", "What is missing",
        paragraph("Nothing: every file that this page is made of was there and could be read.", "note"));
  return section("missing", "What is missing", "<ul class=\"wide\">" + list + "</ul>");
}

}  // namespace echelon::report
