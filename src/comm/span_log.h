#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/options/choice.h"

namespace echelon {

/// The kind of work that a rank did in a span.
enum class SpanKind : std::uint8_t {
  // By the thread that trains. Each lies within or beside the others.
  kStep,
  kForward,
  kBackward,
  kRecompute,
  kOptimizer,   ///< norm and update
  kGatherWait,  ///< waiting for weights
  kReduceWait,  ///< waiting for gradients, and for other ranks at the end of a step
  kDataWait,
  kSaveStall,
  // Beside it.
  kGather,  ///< collectives, from where they run
  kReduce,
  kExchange,  ///< other collectives
  kSave,
};
template <>
inline constexpr std::array<std::string_view, 13> kWords<SpanKind>{
    "step",      "forward",    "backward", "recompute", "optimizer", "gather wait", "reduce wait",
    "data wait", "save stall", "gather",   "reduce",    "exchange",  "save"};
inline constexpr std::size_t kSpanKinds = kWords<SpanKind>.size();

/// Plain bytes.
struct Span {
  double begin_s = 0;  ///< steady_now_s() of this process
  double end_s = 0;
  double issued_s = 0;      ///< collectives only
  std::uint64_t bytes = 0;  ///< collectives: data that this rank sends
  SpanKind kind = SpanKind::kStep;
  char label[47] = {};  ///< unit, or what else it is about; zero-terminated, cut where it is longer

  void name(std::string_view text) {
    std::memcpy(label, text.data(), std::min(text.size(), sizeof(label) - 1));
  }
};

/// Records spans in memory that is allocated once; those beyond its capacity are only counted. Threads add
/// without waiting for each other.
class SpanLog {
 public:
  explicit SpanLog(std::size_t capacity)
      : capacity_(capacity),
        spans_(std::make_unique<Span[]>(capacity)),
        complete_(std::make_unique<std::atomic<bool>[]>(capacity)) {}

  void add(const Span& span) {
    const std::size_t at = next_.fetch_add(1, std::memory_order_relaxed);
    if (at >= capacity_) return;
    spans_[at] = span;
    complete_[at].store(true, std::memory_order_release);
  }
  void add(SpanKind kind, std::string_view label, double begin_s, double end_s) {
    Span span{.begin_s = begin_s, .end_s = end_s, .kind = kind};
    span.name(label);
    add(span);
  }

  /// Returns the spans that are complete by now, in no particular order.
  [[nodiscard]] std::vector<Span> spans() const {
    std::vector<Span> found;
    const std::size_t end = std::min(next_.load(std::memory_order_relaxed), capacity_);
    for (std::size_t i = 0; i < end; ++i) {
      if (complete_[i].load(std::memory_order_acquire)) found.push_back(spans_[i]);
    }
    return found;
  }
  /// Spans for which there was no room.
  [[nodiscard]] std::uint64_t dropped() const {
    const std::size_t all = next_.load(std::memory_order_relaxed);
    return all > capacity_ ? all - capacity_ : 0;
  }

 private:
  std::size_t capacity_;
  std::unique_ptr<Span[]> spans_;
  std::unique_ptr<std::atomic<bool>[]> complete_;
  std::atomic<std::size_t> next_{0};
};

}  // namespace echelon
