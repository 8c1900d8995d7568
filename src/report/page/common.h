#pragma once
#include <string>
#include <vector>

#include "report/charts/curves.h"
#include "report/page/page.h"

/// Functions that several sections use.
namespace echelon::report {

/// Returns the labels of runs side by side: each run's name, with its folder if two have the same name.
[[nodiscard]] std::vector<std::string> labels_of(const std::vector<RunView>& runs);

/// One curve for each run that has the series, styled by run; empty: none has.
[[nodiscard]] std::vector<Curve> curves_of(const std::vector<RunView>& runs, std::string_view name);

/// Adds the series as a curve called `name`, in the next style, if the run has it.
void add_curve(const MetricsLog& metrics, std::string_view series, const std::string& name,
               std::vector<Curve>& curves, bool dots = false);

/// Returns the steps at which later starts of a run begin, for charts over steps.
[[nodiscard]] std::vector<PlaceMark> resumptions(const RunRecord& run);

/// "of 5,000 logged steps each point of a curve stands for 8: least and greatest value"; empty: all are
/// drawn.
[[nodiscard]] std::string thinning_note(const MetricsLog& metrics, std::string_view name);

}  // namespace echelon::report
