#include <algorithm>
#include <cmath>
#include <utility>

#include "base/str.h"
#include "report/charts/rows.h"
#include "report/page/common.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

constexpr std::string_view kPrefix = "memory_bytes.";

const double kUnknown = std::nan("");

/// Predicted, measured after the first step, and the last line's where lines have it.
std::string against_forecast(const RunView& view, const Frame& frame, std::string_view group) {
  std::vector<Key> keys{{"predicted", 3, Key::Mark::kArea}, {"measured", 0, Key::Mark::kArea}};
  const bool logged = group == "memory category" && !view.metrics.names(kPrefix).empty();
  if (logged) keys.push_back({"last line of metrics", 2, Key::Mark::kArea});
  std::vector<ValueRow> rows;
  for (const Prediction& one : view.run.predictions) {
    if (one.group != group) continue;
    ValueRow row{.name = one.name,
                 .values = {one.predicted.value_or(kUnknown), one.measured.value_or(kUnknown)}};
    if (logged) {
      const Series* series = view.metrics.find(str(kPrefix, one.name));
      row.values.push_back(series == nullptr ? kUnknown : series->last().y);
    }
    if (std::ranges::any_of(row.values, [](double value) { return value > 0; }))
      rows.push_back(std::move(row));
  }
  return bar_chart(frame, keys, rows, Quantity::kBytes);
}

std::string over_time(const RunView& view) {
  std::vector<Curve> curves;
  for (const auto& [series, name] :
       {std::pair{"peak_rss_bytes", "process, host"}, std::pair{"peak_device_bytes", "device"},
        std::pair{"tensor_peak_bytes", "tensors"}}) {
    const Series* found = view.metrics.find(series);
    if (found != nullptr && found->greatest().y > 0) add_curve(view.metrics, series, name, curves);
  }
  std::string html = line_chart({.id = "memory",
                                 .title = "Peak memory of a rank",
                                 .description = "Most memory that any rank had held until the step."},
                                {.y = "memory", .y_quantity = Quantity::kBytes, .from_zero = true}, curves);
  curves.clear();
  for (const std::string& name : view.metrics.names(kPrefix)) {
    if (curves.size() < kStyles && view.metrics.find(name)->greatest().y > 0)
      add_curve(view.metrics, name, name.substr(kPrefix.size()), curves);
  }
  return html + line_chart({.id = "memory-over-steps",
                            .title = "Memory by category",
                            .description = "Bytes of each category, the largest of all ranks."},
                           {.y = "memory", .y_quantity = Quantity::kBytes, .from_zero = true}, curves);
}

}  // namespace

std::string memory(const RunView& view) {
  const std::string totals =
      against_forecast(view,
                       {.id = "memory-forecast",
                        .title = "Peak memory against the forecast",
                        .description = "Most bytes that a rank held, as forecast and as measured."},
                       "memory");
  const std::string categories = against_forecast(
      view,
      {.id = "memory-categories",
       .title = "Categories of memory against the forecast",
       .description = "Most bytes of each category that a rank held, as forecast and as measured.",
       .note =
           "Categories are from forecast.json; pool holds gathered weights, whole gradients and staging."},
      "memory category");
  return section("memory", "Memory", over_time(view) + totals + categories);
}

}  // namespace echelon::report
