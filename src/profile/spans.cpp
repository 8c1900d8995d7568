#include "profile/spans.h"

#include <algorithm>

namespace echelon::profile {

void sort_spans(std::vector<Span>& spans) {
  std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
    return a.begin_s != b.begin_s ? a.begin_s < b.begin_s : a.end_s > b.end_s;
  });
}

std::vector<Piece> innermost(const std::vector<Span>& spans) {
  std::vector<Piece> pieces;
  std::vector<std::size_t> open;
  double at_s = 0;
  const auto reach = [&](double to_s) {
    if (!open.empty() && to_s > at_s) pieces.push_back({at_s, to_s, open.back()});
    at_s = std::max(at_s, to_s);
  };
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!of_training(spans[i].kind)) continue;
    for (; !open.empty() && spans[open.back()].end_s <= spans[i].begin_s; open.pop_back())
      reach(spans[open.back()].end_s);
    reach(spans[i].begin_s);
    open.push_back(i);
  }
  for (; !open.empty(); open.pop_back()) reach(spans[open.back()].end_s);
  return pieces;
}

}  // namespace echelon::profile
