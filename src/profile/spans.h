#pragma once
#include <cstddef>
#include <vector>

#include "comm/span_log.h"

namespace echelon::profile {

/// Returns whether the span is one of the thread that trains.
[[nodiscard]] constexpr bool of_training(SpanKind kind) {
  return kind <= SpanKind::kSaveStall;
}

/// A stretch of time in which one span is the innermost.
struct Piece {
  double begin_s = 0;
  double end_s = 0;
  std::size_t span = 0;  ///< index
  [[nodiscard]] double seconds() const { return end_s - begin_s; }
};

/// Orders spans by their beginning, outer ones first.
void sort_spans(std::vector<Span>& spans);
/// Cuts the training thread's spans, which nest, into pieces in order: every moment belongs to the innermost
/// span. `spans`: sorted.
[[nodiscard]] std::vector<Piece> innermost(const std::vector<Span>& spans);

}  // namespace echelon::profile
