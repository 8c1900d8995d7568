#include "model/parts/rotary.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "model/ops/upload.h"

namespace echelon {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

/// What the frequencies are the inverse of, without scaling.
at::Tensor plain_periods(const ModelOptions& model) {
  const std::int64_t size = rotary_size(model);
  const at::Tensor exponent = at::arange(0, size, 2, at::kFloat) / static_cast<double>(size);
  return at::pow(model.rope_theta, exponent);
}

/// Wavelengths below original / high_freq_factor stay, those above original / low_freq_factor are stretched
/// by the factor, and those between are blended.
at::Tensor llama3(const ModelOptions& model, const at::Tensor& inverse) {
  const RopeScalingOptions& rope = model.rope_scaling;
  const auto original = static_cast<double>(original_positions(model));
  const at::Tensor wavelength = kTurn / inverse;
  const at::Tensor stretched =
      at::where(wavelength > original / rope.low_freq_factor, inverse / rope.factor, inverse);
  const at::Tensor smooth =
      (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor blended = (1 - smooth) * stretched / rope.factor + smooth * stretched;
  const at::Tensor between = at::logical_and(wavelength >= original / rope.high_freq_factor,
                                             wavelength <= original / rope.low_freq_factor);
  return at::where(between, blended, stretched);
}

/// Number of the frequency that turns `turns` times within the original positions.
double frequency_of(double turns, const ModelOptions& model) {
  return static_cast<double>(rotary_size(model)) *
         std::log(static_cast<double>(original_positions(model)) / (turns * kTurn)) /
         (2 * std::log(model.rope_theta));
}

at::Tensor yarn(const ModelOptions& model, const at::Tensor& inverse) {
  const RopeScalingOptions& rope = model.rope_scaling;
  double low = frequency_of(rope.beta_fast, model);
  double high = frequency_of(rope.beta_slow, model);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_size(model) - 1));
  if (low == high) high += 0.001;  // transformers' guard against a division by zero
  const at::Tensor number = at::arange(rotary_size(model) / 2, at::kFloat);
  const at::Tensor kept = 1 - at::clamp((number - low) / (high - low), 0, 1);
  return inverse / rope.factor * (1 - kept) + inverse * kept;
}

at::Tensor longrope(const ModelOptions& model) {
  const at::Tensor factors = at::tensor(model.rope_scaling.short_factor, at::kDouble).to(at::kFloat);
  return at::reciprocal(factors * plain_periods(model));
}

double longrope_factor(const ModelOptions& model) {
  const auto original = static_cast<double>(original_positions(model));
  const double factor = static_cast<double>(model.max_positions) / original;
  return factor <= 1 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
}

double yarn_factor(const RopeScalingOptions& rope) {
  if (rope.attention_factor > 0) return rope.attention_factor;
  return rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
}

}  // namespace

RotaryFrequencies rotary_frequencies(const ModelOptions& model) {
  const at::Tensor inverse = at::reciprocal(plain_periods(model));
  switch (model.rope_scaling.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:  // recipe/check refuses sequences that would be stretched
      break;
    case RopeKind::kLinear: return {inverse / model.rope_scaling.factor};
    case RopeKind::kLlama3: return {llama3(model, inverse)};
    case RopeKind::kLongRope:  // as kDynamic
      return {longrope(model), longrope_factor(model)};
    case RopeKind::kYarn: return {yarn(model, inverse), yarn_factor(model.rope_scaling)};
  }
  return {inverse};
}

RotaryTable::RotaryTable(const ModelOptions& model, at::ScalarType dtype, at::Device device)
    : frequencies_(rotary_frequencies(model)),
      max_positions_(model.max_positions),
      dtype_(dtype),
      device_(device) {}

const at::Tensor& RotaryTable::rows(std::int64_t positions) {
  if (table_.defined() && table_.size(0) >= positions) return table_;
  // Generation asks for one more position each time.
  const auto rounded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(positions)));
  const at::Tensor angle = at::outer(
      at::arange(std::max(positions, std::min(rounded, max_positions_)), at::kFloat), frequencies_.inverse);
  const at::Tensor table = at::cat({angle.cos(), angle.sin()}, 1) * frequencies_.factor;
  table_ = upload(table.to(dtype_).to(at::kFloat).contiguous(), device_);
  return table_;
}

}  // namespace echelon
