#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "optim/options.h"
#include "optim/update_rule.h"

namespace echelon::test {

inline UpdateRange range_of(const UpdateRule& rule, const at::Tensor& weights) {
  UpdateRange range{weights, at::zeros(weights.sizes(), at::kFloat), {}};
  for (const UpdateRule::StateSpec& spec : rule.states())
    range.states.push_back(at::zeros(weights.sizes(), at::TensorOptions().dtype(spec.dtype)));
  return range;
}

/// Six updates of two ranges by the rule of these options, one of them with gradients multiplied by a
/// quarter, against `Exact`: one weight in double precision, made from its start, with step(gradient, number,
/// lr, options) and states() in the rule's order.
template <class Exact>
void expect_follows(const OptimOptions& options, double tolerance) {
  const auto rule = make_rule(options);
  at::manual_seed(7);
  std::vector<UpdateRange> ranges{range_of(*rule, at::randn({1003})), range_of(*rule, at::randn({17}))};
  std::vector<std::vector<Exact>> exact;
  for (const UpdateRange& range : ranges) {
    auto& weights = exact.emplace_back();
    for (std::int64_t i = 0; i < range.weights.numel(); ++i)
      weights.emplace_back(range.weights[i].item<double>());
  }
  for (int number = 1; number <= 6; ++number) {
    const double lr = 0.01 * number;
    const double factor = number == 3 ? 0.25 : 1.0;
    for (std::size_t r = 0; r < ranges.size(); ++r) {
      ranges[r].gradient.normal_();
      const float* gradient = ranges[r].gradient.const_data_ptr<float>();
      for (std::size_t i = 0; i < exact[r].size(); ++i)
        exact[r][i].step(factor * static_cast<double>(gradient[i]), number, lr, options);
    }
    rule->update({number, lr, options.weight_decay, factor}, ranges);
  }
  for (std::size_t r = 0; r < ranges.size(); ++r) {
    for (std::size_t i = 0; i < exact[r].size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      ASSERT_NEAR(ranges[r].weights[at].item<double>(), exact[r][i].weight, tolerance) << "weight " << i;
      const std::vector<double> states = exact[r][i].states();
      ASSERT_EQ(states.size(), ranges[r].states.size());
      for (std::size_t s = 0; s < states.size(); ++s) {
        ASSERT_NEAR(ranges[r].states[s][at].item<double>(), states[s], tolerance)
            << rule->states()[s].name << " " << i;
      }
    }
  }
}

/// AdamW as the paper's algorithm 2 moves one weight.
struct ExactAdamW {
  explicit ExactAdamW(double start) : weight(start) {}
  void step(double gradient, std::int64_t number, double lr, const OptimOptions& o) {
    const auto t = static_cast<double>(number);
    weight -= lr * o.weight_decay * weight;
    exp_avg = o.betas[0] * exp_avg + (1 - o.betas[0]) * gradient;
    exp_avg_sq = o.betas[1] * exp_avg_sq + (1 - o.betas[1]) * gradient * gradient;
    const double first = exp_avg / (1 - std::pow(o.betas[0], t));
    const double second = exp_avg_sq / (1 - std::pow(o.betas[1], t));
    weight -= lr * first / (std::sqrt(second) + o.eps);
  }
  [[nodiscard]] std::vector<double> states() const { return {exp_avg, exp_avg_sq}; }
  double weight;
  double exp_avg = 0;
  double exp_avg_sq = 0;
};

}  // namespace echelon::test
