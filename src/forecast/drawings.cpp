#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/foreign_text.h"
#include "base/number.h"
#include "base/str.h"
#include "base/trace_events.h"
#include "forecast/report.h"

namespace echelon::forecast {
namespace {

constexpr double kMicro = 1e6;

std::string tenths(double value) {
  return fixed(value, 1);
}

/// Neighboring spans of one style are one rectangle: a step has thousands of operations.
struct Block {
  double begin_s;
  double end_s;
  std::string_view style;
};

std::string_view style_of(const Rehearsed& r, const Span& span) {
  if (span.lane != Lane::kCompute) return name_of(span.lane);
  const std::string& place = r.step.places[span.place];
  return place.starts_with("forward") ? "forward" : place.starts_with("backward") ? "backward" : "compute";
}

std::vector<Block> blocks_of(const Rehearsed& r, const Timeline& timeline, Lane lane, double gap_s) {
  std::vector<Block> blocks;
  for (const Span& span : timeline.spans) {
    if (span.lane != lane) continue;
    const std::string_view style = style_of(r, span);
    if (!blocks.empty() && blocks.back().style == style && span.begin_s - blocks.back().end_s <= gap_s) {
      blocks.back().end_s = std::max(blocks.back().end_s, span.end_s);
    } else {
      blocks.push_back({span.begin_s, span.end_s, style});
    }
  }
  return blocks;
}

/// When the passes run that the timeline leaves out, by what is computed before and after them. Without such
/// passes both are 0.
struct LeftOut {
  explicit LeftOut(const Timeline& timeline) {
    if (timeline.left_out == 0) return;
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
      const Span& span = timeline.spans[i];
      if (span.lane != Lane::kCompute) continue;
      if (i < timeline.behind_left_out) {
        from_s = std::max(from_s, span.end_s);
        to_s = from_s;
      } else {
        to_s = span.begin_s;
        return;
      }
    }
  }
  double from_s = 0;
  double to_s = 0;
};

constexpr double kMilli = 1e3;
constexpr double kWidth = 1000;
constexpr double kLeft = 90;
constexpr double kRow = 34;
constexpr double kTop = 60;
constexpr std::array<Lane, 4> kRows{Lane::kCompute, Lane::kCopy, Lane::kGather, Lane::kReduce};
constexpr double kBottom = kTop + kRow * kRows.size();

constexpr const char* kStyle = R"(<style>
  .page { fill: #ffffff }
  text { font-family: "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; font-size: 13px; fill: #1f2328 }
  .head { font-size: 16px }
  .note { fill: #57606a }
  .middle { text-anchor: middle }
  .line { stroke: #d0d7de }
  .left-out { fill: url(#hatch) }
  .forward { fill: #3b7dd8 } .backward { fill: #e08a2e } .compute { fill: #6f9d5c }
  .copy { fill: #9a9a9a } .gather { fill: #7a5bb0 } .reduce { fill: #b0475a }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 }
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .line { stroke: #3d444d }
    .forward { fill: #5c9bf0 } .backward { fill: #f0a04b } .compute { fill: #8cbf77 }
    .gather { fill: #a98be0 } .reduce { fill: #dc7285 }
  }
</style>
<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse"><path class="line" d="M0 8L8 0"/></pattern></defs>
)";

/// Places of times in the picture. Passes that are left out take the same width, however many they are.
class TimeAxis {
 public:
  explicit TimeAxis(const Timeline& timeline) : cut_(timeline) {
    for (const Span& span : timeline.spans) end_s_ = std::max(end_s_, span.end_s);
    cut_width_ = cut_.to_s > cut_.from_s ? kCutWidth : 0;
    scale_ = (kWidth - kLeft - kRight - cut_width_) / std::max(end_s_ - (cut_.to_s - cut_.from_s), 1e-9);
  }

  [[nodiscard]] double end_s() const { return end_s_; }
  [[nodiscard]] double seconds_of(double width) const { return width / scale_; }
  [[nodiscard]] double x(double time_s) const {
    if (time_s <= cut_.from_s) return kLeft + time_s * scale_;
    if (time_s < cut_.to_s)
      return x(cut_.from_s) + cut_width_ * (time_s - cut_.from_s) / (cut_.to_s - cut_.from_s);
    return x(cut_.from_s) + cut_width_ + (time_s - cut_.to_s) * scale_;
  }

  /// Round times as lines with labels, and the passes that are left out.
  [[nodiscard]] std::string svg(std::int64_t left_out) const {
    std::string svg;
    const double step_s = round_step(seconds_of(kTickWidth));
    const bool long_step = end_s_ >= 2;
    for (std::int64_t i = 0; static_cast<double>(i) * step_s <= end_s_; ++i) {
      const double time_s = static_cast<double>(i) * step_s;
      if (time_s > cut_.from_s && time_s < cut_.to_s) continue;
      const std::string at = tenths(x(time_s));
      svg += str("<path class=\"line\" d=\"M", at, ' ', tenths(kTop), 'V', tenths(kBottom),
                 "\"/>\n<text class=\"note middle\" x=\"", at, "\" y=\"", tenths(kBottom + 14), "\">",
                 time_s * (long_step ? 1 : kMilli), long_step ? " s" : " ms", "</text>\n");
    }
    if (cut_width_ == 0) return svg;
    const double left = x(cut_.from_s);
    return str(svg, "<rect class=\"left-out\" x=\"", tenths(left), "\" y=\"", tenths(kTop), "\" width=\"",
               tenths(cut_width_), "\" height=\"", tenths(kBottom - kTop),
               "\"/>\n<text class=\"middle\" x=\"", tenths(left + cut_width_ / 2), "\" y=\"",
               tenths(kTop - 6), "\">", counted(left_out, "equal pass"), "</text>\n");
  }

 private:
  static constexpr double kRight = 30;  ///< half of a label
  static constexpr double kCutWidth = 120;
  static constexpr double kTickWidth = 60;

  /// 1, 2 or 5 times a power of ten, at least `least`.
  static double round_step(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= least) return factor * power;
    }
    return 10 * power;
  }

  LeftOut cut_;
  double end_s_ = 0;
  double cut_width_ = 0;
  double scale_ = 1;
};

}  // namespace

std::string perfetto_trace(const Rehearsed& r, const Timeline& timeline) {
  TraceEvents events;
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    events.name_lane(0, static_cast<int>(lane), name_of(static_cast<Lane>(lane)));
  for (const Span& span : timeline.spans) {
    std::string place;
    if (span.lane == Lane::kCompute || span.lane == Lane::kCopy)
      place = nlohmann::json{{"place", r.step.places[span.place]}}.dump();
    events.add(0, static_cast<int>(span.lane), name_of(span.lane), r.step.names[span.name],
               span.begin_s * kMicro, (span.end_s - span.begin_s) * kMicro, place);
  }
  if (const LeftOut cut(timeline); cut.to_s > cut.from_s) {
    events.add(0, static_cast<int>(Lane::kCompute), "left out", counted(timeline.left_out, "equal pass"),
               cut.from_s * kMicro, (cut.to_s - cut.from_s) * kMicro, "");
  }
  return str(TraceEvents::kHead, events.events(), TraceEvents::kTail);
}

std::string picture(const ReportTitle& title, const Rehearsed& r, const Outlook& o) {
  if (!o.time) return {};
  const Timeline& timeline = o.time->timeline;
  const TimeAxis axis(timeline);
  const std::string what = str(as_html(title.recipe), ": one step on ", as_html(title.device));
  std::string svg =
      str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", tenths(kWidth), ' ',
          tenths(kBottom + 44), "\" role=\"img\" aria-label=\"", what, "\">\n", kStyle,
          "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n<text class=\"head\" x=\"10\" y=\"22\">",
          what, "</text>\n<text class=\"note\" x=\"10\" y=\"42\">", tenths(axis.end_s() * kMilli), " ms; ",
          as_html(o.time->limit), "</text>\n", axis.svg(timeline.left_out));
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    const double y = kTop + kRow * static_cast<double>(row);
    svg += str("<text x=\"10\" y=\"", tenths(y + 18), "\">", name_of(kRows[row]), "</text>\n");
    for (const Block& block : blocks_of(r, timeline, kRows[row], axis.seconds_of(0.5))) {
      svg += str("<rect x=\"", tenths(axis.x(block.begin_s)), "\" y=\"", tenths(y), "\" width=\"",
                 tenths(std::max(0.5, axis.x(block.end_s) - axis.x(block.begin_s))),
                 "\" height=\"24\" class=\"", block.style, "\"/>\n");
    }
  }
  return str(svg, "<text class=\"note\" x=\"", tenths(kLeft), "\" y=\"", tenths(kBottom + 36),
             "\">blue: forward, orange: backward, green: batch, norm and update</text>\n</svg>\n");
}

}  // namespace echelon::forecast
