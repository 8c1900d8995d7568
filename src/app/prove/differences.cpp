#include "app/prove/differences.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/str.h"

namespace echelon::app {
namespace {

constexpr double kLeastShare = 5e-3;
/// A gradient's element is taken for rounding below this share of the root mean square of all gradients.
constexpr double kRounding = 1e-4;
/// Updates below this share of a weight are lost in its rounding.
constexpr double kLeastUpdate = 1e-4;

/// The sum of (values - from)^2; null: from 0.
double squares(const std::vector<float>& values, const std::vector<float>* from) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = double{values[i]} - (from == nullptr ? 0.0 : double{from->at(i)});
    sum += difference * difference;
  }
  return sum;
}

/// Root of the mean square of expected - from over all tensors.
double typical(const Tensors& expected, const Tensors* from) {
  double sum = 0;
  double count = 0;
  for (const auto& [name, values] : expected) {
    sum += squares(values, from == nullptr ? nullptr : &from->at(name));
    count += static_cast<double>(values.size());
  }
  return std::sqrt(sum / std::max(count, 1.0));
}

}  // namespace

void Difference::keep_larger(double other, const std::string& place) {
  if (std::isnan(value) || other <= value) return;
  value = other;
  where = place;
}

Difference of_steps(std::string what, double bound, const std::vector<double>& got,
                    const std::vector<double>& expected) {
  Difference worst{std::move(what), 0, bound, "step 1"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst.keep_larger(std::abs(got.at(i) - expected[i]) / std::abs(expected[i]), str("step ", i + 1));
  }
  return worst;
}

Distances distances(const Tensors& got, const Tensors& expected, const Tensors* from) {
  const double typically = typical(expected, from);
  Distances found;
  for (const auto& [name, values] : expected) {
    const auto other = got.find(name);
    if (other == got.end() || other->second.size() != values.size()) {
      found[name] = std::numeric_limits<double>::infinity();
      continue;
    }
    const std::vector<float>* base = from == nullptr ? nullptr : &from->at(name);
    const double apart = squares(values, &other->second);
    const double least = kLeastShare * typically * std::sqrt(static_cast<double>(values.size()));
    const double divisor = std::max(
        {std::sqrt(squares(values, base)), least, kLeastUpdate * std::sqrt(squares(values, nullptr))});
    found[name] = apart == 0 ? 0 : std::sqrt(apart) / divisor;
  }
  return found;
}

double overall_distance(const Tensors& got, const Tensors& expected) {
  double apart = 0;
  double size = 0;
  for (const auto& [name, values] : expected) {
    apart += squares(values, &got.at(name));
    size += squares(values, nullptr);
  }
  return std::sqrt(apart / size);
}

Distances update_distances(const Tensors& found, const Tensors& expected, const Tensors& from,
                           const Tensors& largest_gradients) {
  const double rounding = kRounding * typical(largest_gradients, nullptr);
  Tensors got = found;
  for (auto& [name, values] : got) {
    const auto gradients = largest_gradients.find(name);
    const auto right = expected.find(name);
    if (gradients == largest_gradients.end() || right == expected.end()) continue;
    if (values.size() != gradients->second.size()) continue;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double gradient = gradients->second[i];
      if (gradient > 0 && gradient < rounding) values[i] = right->second[i];
    }
  }
  return distances(got, expected, &from);
}

Difference of_bits(std::string what, const Tensors& got, const Tensors& expected) {
  Difference wrong{std::move(what), 0, 0, "none"};
  for (const auto& [name, values] : expected) {
    const auto found = got.find(name);
    if (found != got.end() && found->second == values) continue;
    if (wrong.value++ == 0) wrong.where = name;
  }
  return wrong;
}

Difference of_tensors(std::string what, double bound, const Distances& found) {
  Difference worst{std::move(what), 0, bound, found.empty() ? "" : found.begin()->first};
  for (const auto& [name, value] : found) worst.keep_larger(value, name);
  return worst;
}

}  // namespace echelon::app
