#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/str.h"
#include "base/trace_events.h"
#include "forecast/report.h"

namespace echelon::forecast {
namespace {

constexpr double kMicro = 1e6;

/// As text of XML.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

/// Neighbouring spans of one colour are one rectangle: a step has thousands of operations.
struct Block {
  double begin_s;
  double end_s;
  std::size_t colour;
};

std::vector<Block> blocks_of(const Rehearsed& r, const Timeline& timeline, Lane lane, double gap_s) {
  std::vector<Block> blocks;
  for (const Span& span : timeline.spans) {
    if (span.lane != lane) continue;
    std::size_t colour = 0;
    if (lane == Lane::kCompute) {
      const std::string& place = r.step.places[span.place];
      colour = place.starts_with("forward") ? 0 : place.starts_with("backward") ? 1 : 2;
    }
    if (!blocks.empty() && blocks.back().colour == colour && span.begin_s - blocks.back().end_s <= gap_s) {
      blocks.back().end_s = std::max(blocks.back().end_s, span.end_s);
    } else {
      blocks.push_back({span.begin_s, span.end_s, colour});
    }
  }
  return blocks;
}

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
  return str(TraceEvents::kHead, events.events(), TraceEvents::kTail);
}

std::string picture(const ReportTitle& title, const Rehearsed& r, const Outlook& o) {
  constexpr double kWidth = 1000;
  constexpr double kLeft = 90;
  constexpr double kRow = 34;
  constexpr double kTop = 60;
  constexpr std::array<Lane, 4> kShown{Lane::kCompute, Lane::kCopy, Lane::kGather, Lane::kReduce};
  constexpr std::array<std::array<const char*, 3>, 4> kColours{
      {{"#3b7dd8", "#e08a2e", "#6f9d5c"}, {"#9a9a9a", "", ""}, {"#7a5bb0", "", ""}, {"#b0475a", "", ""}}};
  if (!o.time) return {};
  const Timeline& timeline = o.time->timeline;
  double end_s = 0;
  for (const Span& span : timeline.spans) end_s = std::max(end_s, span.end_s);
  const double scale = (kWidth - kLeft - 10) / std::max(end_s, 1e-9);
  const double height = kTop + kRow * kShown.size() + 30;
  std::string svg =
      str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", fixed(kWidth), ' ', fixed(height),
          "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" "
          "height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"22\" font-size=\"16\">",
          escaped(title.recipe), ": one step on ", escaped(title.device),
          "</text>\n<text x=\"10\" y=\"42\" fill=\"#555\">", fixed(end_s * 1e3), " ms drawn; ",
          escaped(o.time->limit), "</text>\n");
  for (std::size_t row = 0; row < kShown.size(); ++row) {
    const double y = kTop + kRow * static_cast<double>(row);
    svg += str("<text x=\"10\" y=\"", fixed(y + 18), "\">", name_of(kShown[row]), "</text>\n");
    for (const Block& block : blocks_of(r, timeline, kShown[row], 0.5 / scale)) {
      svg += str("<rect x=\"", fixed(kLeft + block.begin_s * scale), "\" y=\"", fixed(y), "\" width=\"",
                 fixed(std::max(0.5, (block.end_s - block.begin_s) * scale)), "\" height=\"24\" fill=\"",
                 kColours[row][block.colour], "\"/>\n");
    }
  }
  svg +=
      str("<text x=\"", fixed(kLeft), "\" y=\"", fixed(height - 10),
          "\" fill=\"#555\">blue: forward, orange: backward, green: batch, norm and update</text>\n</svg>\n");
  return svg;
}

}  // namespace echelon::forecast
