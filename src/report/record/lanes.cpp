#include "report/record/lanes.h"

#include "base/str.h"
#include "report/record/files.h"

namespace echelon::report {
namespace {

constexpr std::uint64_t kMostLanesBytes = std::uint64_t{4} << 20;
constexpr std::size_t kMostLaneRanks = 16;
constexpr std::size_t kMostLanes = 12;
constexpr std::size_t kMostSpans = 20'000;
constexpr double kLongest_us = 1e12;

std::vector<Lanes::Span> spans_of(const nlohmann::json& list, std::size_t& room) {
  std::vector<Lanes::Span> spans;
  if (!list.is_array()) return spans;
  for (const nlohmann::json& span : list) {
    if (room == 0) break;
    if (!span.is_array() || span.size() < 2 || !span[0].is_number() || !span[1].is_number()) continue;
    const double begin = span[0].get<double>();
    const double duration = span[1].get<double>();
    if (!(begin >= 0 && begin <= kLongest_us && duration >= 0 && duration <= kLongest_us)) continue;
    const bool named = span.size() > 2 && span[2].is_string();
    spans.push_back({begin, duration, named ? span[2].get<std::string>() : ""});
    --room;
  }
  return spans;
}

}  // namespace

Lanes read_lanes(const fs::Path& run, Missing& missing) {
  Lanes lanes;
  const nlohmann::json read = read_json_if_there(run / "profile" / "lanes.json", kMostLanesBytes, missing);
  const nlohmann::json& ranks = member_of(read, "ranks");
  if (!ranks.is_array()) return lanes;
  const nlohmann::json& steps = member_of(read, "steps");
  if (steps.is_array() && steps.size() == 2 && steps[0].is_number_integer() && steps[1].is_number_integer()) {
    lanes.first_step = steps[0].get<std::int64_t>();
    lanes.last_step = steps[1].get<std::int64_t>();
  }
  std::size_t room = kMostSpans;
  for (const nlohmann::json& rank : ranks) {
    if (lanes.ranks.size() == kMostLaneRanks) break;
    Lanes::Rank one{.rank = static_cast<std::int64_t>(number_in(rank, "rank").value_or(0)),
                    .host = text_in(rank, "host")};
    const nlohmann::json& list = member_of(rank, "lanes");
    for (std::size_t i = 0; list.is_array() && i < list.size() && i < kMostLanes; ++i)
      one.lanes.push_back({text_in(list[i], "name"), spans_of(member_of(list[i], "spans"), room)});
    lanes.ranks.push_back(std::move(one));
  }
  if (lanes.ranks.size() < ranks.size())
    missing.push_back(
        str("of profile/lanes.json the first ", kMostLaneRanks, " of ", ranks.size(), " ranks are shown"));
  return lanes;
}

}  // namespace echelon::report
