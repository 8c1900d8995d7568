#include <cmath>

#include "optim/update_rule.h"
#include "unit/optim/rule_check.h"

namespace echelon {
namespace {

/// One weight as Zeiler's algorithm 1 moves it, the step multiplied by lr.
struct Exact {
  explicit Exact(double start) : weight(start) {}
  void step(double gradient, std::int64_t /*number*/, double lr, const OptimOptions& o) {
    gradient += o.weight_decay * weight;
    square_avg = o.rho * square_avg + (1 - o.rho) * gradient * gradient;
    const double delta = std::sqrt(acc_delta + o.eps) / std::sqrt(square_avg + o.eps) * gradient;
    acc_delta = o.rho * acc_delta + (1 - o.rho) * delta * delta;
    weight -= lr * delta;
  }
  [[nodiscard]] std::vector<double> states() const { return {square_avg, acc_delta}; }
  double weight;
  double square_avg = 0;
  double acc_delta = 0;
};

TEST(Adadelta, MovesWeightsAsThePaperSays) {
  const OptimOptions options{.kind = OptimKind::kAdadelta, .eps = 1e-4, .weight_decay = 0.2, .rho = 0.8};
  test::expect_follows<Exact>(options, 2e-6);
}

TEST(Adadelta, BlocksOfALongRangeAreNotSeen) {
  const auto rule = make_rule({.kind = OptimKind::kAdadelta});
  const std::int64_t length = (std::int64_t{1} << 17) + 5;
  const at::Tensor start = at::randn({length});
  const at::Tensor gradient = at::randn({length});
  const UpdateValues values{.lr = 0.5, .weight_decay = 0.1};
  UpdateRange whole = test::range_of(*rule, start.clone());
  whole.gradient.copy_(gradient);
  rule->update(values, std::span(&whole, 1));
  for (const std::int64_t at : {std::int64_t{0}, length / 2 - 3, length - 9}) {
    UpdateRange part = test::range_of(*rule, start.narrow(0, at, 9).clone());
    part.gradient.copy_(gradient.narrow(0, at, 9));
    rule->update(values, std::span(&part, 1));
    EXPECT_TRUE(at::allclose(part.weights, whole.weights.narrow(0, at, 9), 1e-6, 1e-7)) << at;
  }
}

}  // namespace
}  // namespace echelon
