#include "profile/rank_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "profile/spans.h"

namespace echelon::profile {
namespace {

struct Cost {
  double seconds = 0;
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
};

/// Seconds in which at least one of `kernels` ran. In order of their beginning.
double busy_s(const std::vector<Kernel>& kernels) {
  double busy = 0;
  double reached_s = 0;
  for (const Kernel& kernel : kernels) {
    busy += std::max(0.0, kernel.end_s - std::max(kernel.begin_s, reached_s));
    reached_s = std::max(reached_s, kernel.end_s);
  }
  return busy;
}

nlohmann::json row(std::string_view operation, const std::string& of, const Cost& cost, bool beside) {
  return {{"operation", operation}, {"of", of},        {"seconds", cost.seconds}, {"count", cost.count},
          {"bytes", cost.bytes},    {"beside", beside}};
}

}  // namespace

nlohmann::json report_of(const RankContext& context, const std::vector<Span>& spans,
                         const std::vector<Kernel>& kernels) {
  std::map<std::pair<SpanKind, std::string>, Cost> costs;
  std::array<double, kSpanKinds> by_kind{};
  const auto add = [&](const Span& span, double seconds) {
    costs[{span.kind, span.label}].seconds += seconds;
    by_kind[static_cast<std::size_t>(span.kind)] += seconds;
  };
  for (const Piece& piece : innermost(spans)) add(spans[piece.span], piece.seconds());
  double step_s = 0;
  for (const Span& span : spans) {
    if (!of_training(span.kind)) add(span, span.end_s - span.begin_s);
    if (span.kind == SpanKind::kStep) step_s += span.end_s - span.begin_s;
    Cost& cost = costs[{span.kind, span.label}];
    ++cost.count;
    cost.bytes += span.bytes;
  }
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [what, cost] : costs) {
    if (what.first == SpanKind::kStep) continue;
    rows.push_back(row(word_of(what.first), what.second, cost, !of_training(what.first)));
  }
  std::map<std::string, Cost> by_name;
  for (const Kernel& kernel : kernels) {
    Cost& cost = by_name[kernel.name];
    cost.seconds += kernel.seconds();
    ++cost.count;
  }
  for (const auto& [name, cost] : by_name) rows.push_back(row("kernel", name, cost, true));
  nlohmann::json kinds;
  for (std::size_t kind = 0; kind < kSpanKinds; ++kind)
    kinds[std::string(word_of(static_cast<SpanKind>(kind)))] = by_kind[kind];
  return {{"rank", context.rank},
          {"host", context.host},
          {"steps", context.steps},
          {"step_s", step_s},
          {"engine_comm_wait_s", context.engine_comm_wait_s},
          {"dropped_spans", context.dropped_spans},
          {"clock_offset_s", context.clock.offset_s},
          {"clock_uncertainty_s", context.clock.uncertainty_s},
          {"seconds", kinds},
          {"costs", rows},
          {"device_busy_s", busy_s(kernels)}};
}

}  // namespace echelon::profile
