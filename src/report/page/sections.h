#pragma once
#include <string>
#include <vector>

#include "report/charts/figure.h"
#include "report/page/page.h"

/// The parts of a page. Each returns HTML; one that has nothing to show says so or is empty.
namespace echelon::report {

/// page/style.css and page/script.js, compiled in.
extern const char kStyle[];
extern const char kScript[];

/// <section> with a heading; empty when `body` is.
[[nodiscard]] std::string section(const std::string& id, const std::string& title, const std::string& body);
/// A paragraph.
[[nodiscard]] std::string paragraph(const std::string& text, const char* style = "");

[[nodiscard]] std::string header(const RunView& view, const PageOptions& options);

/// Loss and validation, rate, gradients; curves of several runs over each other.
[[nodiscard]] std::string learning(const std::vector<RunView>& runs);
/// Throughput and MFU.
[[nodiscard]] std::string throughput(const std::vector<RunView>& runs);
/// The parts of a step's time, their spread over the ranks, and the lanes of a step.
[[nodiscard]] std::string step_time(const RunView& view);
[[nodiscard]] std::string memory(const RunView& view);
/// Starts, checkpoints and failures over time, with their causes.
[[nodiscard]] std::string life(const RunView& view);
/// The uses of the jobs' seconds.
[[nodiscard]] std::string goodput(const std::vector<RunView>& runs);
[[nodiscard]] std::string predictions(const RunView& view);
[[nodiscard]] std::string environment(const RunView& view);
/// The numbers of several runs side by side, and the differences between their recipes.
[[nodiscard]] std::string side_by_side(const std::vector<RunView>& runs);
[[nodiscard]] std::string what_is_missing(const std::vector<RunView>& runs);

}  // namespace echelon::report
