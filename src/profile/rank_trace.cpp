#include "profile/rank_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "base/str.h"
#include "base/trace_events.h"
#include "profile/options.h"
#include "profile/spans.h"

namespace echelon::profile {
namespace {

/// Lanes of trace.json, by number.
constexpr std::array<const char*, 5> kTraceLanes{"training", "gather", "reduce", "exchange", "save"};

int trace_lane(SpanKind kind) {
  if (of_training(kind)) return 0;
  return 1 + static_cast<int>(kind) - static_cast<int>(SpanKind::kGather);
}

std::string title(const Span& span) {
  return span.label[0] == '\0' ? std::string(word_of(span.kind)) : str(word_of(span.kind), ' ', span.label);
}

/// Lanes of lanes.json.
constexpr std::array<const char*, 6> kLanes{"compute", "gather", "reduce", "data", "save", "copy"};

/// Index in kLanes; -1: waits for other ranks and what is around units are the gaps.
int lane_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
    case SpanKind::kBackward:
    case SpanKind::kRecompute:
    case SpanKind::kOptimizer: return 0;
    case SpanKind::kGather: return 1;
    case SpanKind::kReduce:
    case SpanKind::kExchange: return 2;
    case SpanKind::kDataWait: return 3;
    case SpanKind::kSaveStall:
    case SpanKind::kSave: return 4;
    case SpanKind::kStep:
    case SpanKind::kGatherWait:
    case SpanKind::kReduceWait: break;
  }
  return -1;
}

/// The lane of a kernel, whose name tells whether it is one of NCCL, a copy or a fill.
std::size_t lane_of(const Kernel& kernel) {
  const std::string& name = kernel.name;
  if (name.starts_with("Memcpy") || name.starts_with("Memset")) return 5;
  if (!name.starts_with("nccl")) return 0;
  return name.find("AllGather") != name.npos || name.find("Broadcast") != name.npos ? 1 : 2;
}

struct Block {
  double begin_us = 0;
  double end_us = 0;
  std::string label;
};
using Blocks = std::array<std::vector<Block>, kLanes.size()>;

/// Joins neighbors that are nearer than `gap_us` and, unless they are alike, shorter than it.
std::vector<Block> joined(const std::vector<Block>& blocks, double gap_us) {
  std::vector<Block> out;
  for (const Block& block : blocks) {
    const bool near = !out.empty() && block.begin_us - out.back().end_us <= gap_us;
    const bool alike = near && out.back().label == block.label;
    const bool is_short =
        near && std::max(out.back().end_us - out.back().begin_us, block.end_us - block.begin_us) <= gap_us;
    if (!alike && !is_short) {
      out.push_back(block);
      continue;
    }
    out.back().end_us = std::max(out.back().end_us, block.end_us);
    if (!alike) out.back().label = "several";
  }
  return out;
}

nlohmann::json lanes_json(const RankContext& context, const Blocks& blocks, double gap_us) {
  nlohmann::json lanes = nlohmann::json::array();
  for (std::size_t lane = 0; lane < kLanes.size(); ++lane) {
    nlohmann::json spans = nlohmann::json::array();
    for (const Block& block : joined(blocks[lane], gap_us)) {
      spans.push_back({std::round(block.begin_us * 10) / 10,
                       std::round((block.end_us - block.begin_us) * 10) / 10, block.label});
    }
    if (!spans.empty()) lanes.push_back({{"name", kLanes[lane]}, {"spans", std::move(spans)}});
  }
  return {{"rank", context.rank}, {"host", context.host}, {"lanes", std::move(lanes)}};
}

}  // namespace

std::string trace_of(const RankContext& context, const std::vector<Span>& spans,
                     const std::vector<Kernel>& kernels) {
  TraceEvents events;
  events.name_process(context.rank, str("rank ", context.rank, " (", context.host, ")"));
  for (std::size_t lane = 0; lane < kTraceLanes.size(); ++lane)
    events.name_lane(context.rank, static_cast<int>(lane), kTraceLanes[lane]);
  for (const Span& span : spans) {
    const double begin_us = context.micro(span.begin_s);
    std::string arguments;
    if (span.issued_s > 0)
      arguments =
          nlohmann::json{{"bytes", span.bytes}, {"queued_us", (span.begin_s - span.issued_s) * 1e6}}.dump();
    events.add(context.rank, trace_lane(span.kind), word_of(span.kind), title(span), begin_us,
               (span.end_s - span.begin_s) * 1e6, arguments);
  }
  std::map<std::int64_t, int> lanes;
  for (const Kernel& kernel : std::span(kernels).first(std::min<std::size_t>(kernels.size(), kMostSpans))) {
    const auto [lane, added] =
        lanes.emplace(kernel.stream, static_cast<int>(kTraceLanes.size() + lanes.size()));
    if (added) events.name_lane(context.rank, lane->second, str("stream ", kernel.stream));
    events.add(context.rank, lane->second, "kernel", kernel.name, context.micro(kernel.begin_s),
               kernel.seconds() * 1e6);
  }
  return events.events();
}

nlohmann::json lanes_of(const RankContext& context, const std::vector<Span>& spans,
                        const std::vector<Kernel>& kernels, std::size_t bytes) {
  Blocks blocks;
  const auto add = [&](const Span& span, double begin_s, double end_s) {
    const int lane = lane_of(span.kind);
    if (lane < 0 || (!kernels.empty() && lane < lane_of(SpanKind::kDataWait))) return;
    blocks[static_cast<std::size_t>(lane)].push_back(
        {context.micro(begin_s), context.micro(end_s), title(span)});
  };
  for (const Piece& piece : innermost(spans)) add(spans[piece.span], piece.begin_s, piece.end_s);
  for (const Span& span : spans) {
    if (!of_training(span.kind)) add(span, span.begin_s, span.end_s);
  }
  for (const Kernel& kernel : kernels) {
    blocks[lane_of(kernel)].push_back(
        {context.micro(kernel.begin_s), context.micro(kernel.end_s), kernel.name});
  }
  // Gathers and reductions run one after the other on a rank; a save runs beside what it stalls.
  auto& saves = blocks[4];
  std::ranges::sort(saves, {}, &Block::begin_us);
  nlohmann::json lanes = lanes_json(context, blocks, 0);
  constexpr double kFinest_us = 1;
  constexpr double kCoarsest_us = 1e12;
  for (double gap_us = kFinest_us; lanes.dump().size() > bytes && gap_us < kCoarsest_us; gap_us *= 2)
    lanes = lanes_json(context, blocks, gap_us);
  return lanes;
}

}  // namespace echelon::profile
