#include "optim/update_rule.h"
#include "unit/optim/rule_check.h"

namespace echelon {
namespace {

/// One weight as torch.optim.SGD moves it.
struct Exact {
  explicit Exact(double start) : weight(start) {}
  void step(double gradient, std::int64_t number, double lr, const OptimOptions& o) {
    gradient += o.weight_decay * weight;
    if (o.momentum > 0) {
      buffer = number == 1 ? gradient : o.momentum * buffer + gradient;
      gradient = o.nesterov ? gradient + o.momentum * buffer : buffer;
      has_buffer = true;
    }
    weight -= lr * gradient;
  }
  [[nodiscard]] std::vector<double> states() const {
    return has_buffer ? std::vector<double>{buffer} : std::vector<double>{};
  }
  double weight;
  double buffer = 0;
  bool has_buffer = false;
};

void expect_exact(OptimOptions options) {
  options.kind = OptimKind::kSgd;
  test::expect_follows<Exact>(options, 3e-6);
}

TEST(Sgd, WithoutMomentumHasNoState) {
  EXPECT_TRUE(make_rule({.kind = OptimKind::kSgd, .weight_decay = 0.2})->states().empty());
  expect_exact({.weight_decay = 0.2});
}

TEST(Sgd, MomentumStartsAsTheFirstGradient) {
  expect_exact({.weight_decay = 0.2, .momentum = 0.9});
}

TEST(Sgd, NesterovLooksAhead) {
  expect_exact({.weight_decay = 0.2, .momentum = 0.9, .nesterov = true});
}

TEST(Sgd, WithoutWeightDecayOnlyTheGradientCounts) {
  expect_exact({.weight_decay = 0.0, .momentum = 0.5});
}

}  // namespace
}  // namespace echelon
