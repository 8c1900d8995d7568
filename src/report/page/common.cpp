#include "report/page/common.h"

#include <algorithm>

#include "base/str.h"

namespace echelon::report {

std::vector<std::string> labels_of(const std::vector<RunView>& runs) {
  std::vector<std::string> labels;
  for (const RunView& view : runs) {
    const auto same =
        std::ranges::count_if(runs, [&](const RunView& other) { return other.run.name == view.run.name; });
    labels.push_back(same > 1 ? str(view.run.name, " (", view.run.folder.string(), ")") : view.run.name);
  }
  return labels;
}

std::vector<Curve> curves_of(const std::vector<RunView>& runs, std::string_view name) {
  const std::vector<std::string> labels = labels_of(runs);
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Series* series = runs[i].metrics.find(name);
    if (series != nullptr)
      curves.push_back(
          {.name = labels[i], .points = series->points(), .style = static_cast<int>(i) % kStyles});
  }
  return curves;
}

void add_curve(const MetricsLog& metrics, std::string_view series, const std::string& name,
               std::vector<Curve>& curves, bool dots) {
  if (const Series* found = metrics.find(series))
    curves.push_back(
        {.name = name, .points = found->points(), .style = static_cast<int>(curves.size()), .dots = dots});
}

std::vector<PlaceMark> resumptions(const RunRecord& run) {
  std::vector<PlaceMark> marks;
  constexpr std::size_t kMost = 200;
  for (std::size_t i = 1; i < run.starts.size() && marks.size() < kMost; ++i) {
    const Start& start = run.starts[i];
    if (start.first_step > 0)
      marks.push_back({static_cast<double>(start.first_step),
                       str("start ", i + 1, " goes on from step ", start.first_step)});
  }
  return marks;
}

std::string thinning_note(const MetricsLog& metrics, std::string_view name) {
  const Series* series = metrics.find(name);
  if (series == nullptr || series->width() == 1) return "";
  return str("Of ", shown(static_cast<double>(series->count()), Quantity::kStep), " values, neighboring ",
             series->width(), " are drawn as their least and their greatest.");
}

}  // namespace echelon::report
