#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/parts.h"

namespace echelon::reference {
namespace {

/// Radians that pair number `i` of a head turns by from one position to the next.
double turn_of(std::int64_t i, const ModelOptions& model) {
  const auto size = static_cast<double>(rotary_size(model));
  const auto original = static_cast<double>(original_positions(model));
  const RopeScalingOptions& rope = model.rope_scaling;
  const double turn = std::pow(model.rope_theta, -2.0 * static_cast<double>(i) / size);
  const double turns = original * turn / (2 * std::numbers::pi);  // within the original positions
  switch (rope.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:  // no sequence here is longer than the original positions
      return turn;
    case RopeKind::kLinear: return turn / rope.factor;
    case RopeKind::kLongRope:  // as dynamic ones
      return turn / rope.short_factor[static_cast<std::size_t>(i)];
    case RopeKind::kLlama3: {
      if (turns < rope.low_freq_factor) return turn / rope.factor;
      if (turns > rope.high_freq_factor) return turn;
      const double kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      return (1 - kept) * turn / rope.factor + kept * turn;
    }
    case RopeKind::kYarn: {
      // The pair that makes so many turns within the original positions.
      const auto pair_of = [&](double count) {
        return size * std::log(original / (count * 2 * std::numbers::pi)) / (2 * std::log(model.rope_theta));
      };
      double first = pair_of(rope.beta_fast);
      double last = pair_of(rope.beta_slow);
      if (rope.truncate) {
        first = std::floor(first);
        last = std::ceil(last);
      }
      first = std::max(first, 0.0);
      last = std::min(last, size - 1);
      if (first == last) last += 0.001;
      const double ramp = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
      return turn / rope.factor * ramp + turn * (1 - ramp);
    }
  }
  return turn;
}

/// Factor on queries and on keys.
double rope_factor(const ModelOptions& model) {
  const RopeScalingOptions& rope = model.rope_scaling;
  if (rope.kind == RopeKind::kLongRope) {
    const auto original = static_cast<double>(original_positions(model));
    const double stretch = static_cast<double>(model.max_positions) / original;
    return stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(original));
  }
  if (rope.kind != RopeKind::kYarn) return 1;
  if (rope.attention_factor > 0) return rope.attention_factor;
  return rope.factor <= 1 ? 1 : 0.1 * std::log(rope.factor) + 1;
}

}  // namespace

at::Tensor rotated(const at::Tensor& rows, std::int64_t heads, const ModelOptions& model) {
  const std::int64_t half = rotary_size(model) / 2;
  std::vector<double> turns;
  for (std::int64_t i = 0; i < half; ++i) turns.push_back(turn_of(i, model));
  const at::Tensor angle = at::outer(at::arange(rows.size(0), at::kDouble), at::tensor(turns, at::kDouble));
  const double factor = rope_factor(model);
  const at::Tensor cos = (at::cos(angle) * factor).to(rows.scalar_type()).unsqueeze(1);
  const at::Tensor sin = (at::sin(angle) * factor).to(rows.scalar_type()).unsqueeze(1);
  const at::Tensor each = rows.view({rows.size(0), heads, -1});
  const at::Tensor a = each.narrow(2, 0, half);
  const at::Tensor b = each.narrow(2, half, half);
  const at::Tensor still = each.narrow(2, 2 * half, each.size(2) - 2 * half);
  return at::cat({a * cos - b * sin, b * cos + a * sin, still}, 2).reshape_as(rows);
}

}  // namespace echelon::reference
