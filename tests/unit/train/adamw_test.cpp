#include "train/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "comm/local_communicator.h"

namespace echelon {
namespace {

/// One weight of one unit as the paper's algorithm 2 moves it, in double precision.
struct Exact {
  double weight = 0;
  double exp_avg = 0;
  double exp_avg_sq = 0;
  void step(double gradient, std::int64_t step, double lr, const OptimOptions& o) {
    weight -= lr * o.weight_decay * weight;
    exp_avg = o.betas[0] * exp_avg + (1 - o.betas[0]) * gradient;
    exp_avg_sq = o.betas[1] * exp_avg_sq + (1 - o.betas[1]) * gradient * gradient;
    const auto t = static_cast<double>(step);
    const double first = exp_avg / (1 - std::pow(o.betas[0], t));
    const double second = exp_avg_sq / (1 - std::pow(o.betas[1], t));
    weight -= lr * first / (std::sqrt(second) + o.eps);
  }
};

class Optimizer : public ::testing::Test {
 protected:
  Optimizer()
      : model_(build_model({.vocab_size = 13,
                            .hidden_size = 8,
                            .intermediate_size = 12,
                            .layers = 1,
                            .heads = 2,
                            .kv_heads = 1,
                            .max_positions = 8},
                           at::kFloat, at::kCPU),
               comm_, {}, 3, at::kCPU),
        optim_(options_, model_) {}

  /// Gives every unit a gradient of its own; padding gets none.
  void set_gradients(int step) {
    at::manual_seed(static_cast<std::uint64_t>(step));
    for (const auto& unit : model_.units()) {
      at::Tensor gradient = unit->gradient();
      gradient.zero_();
      gradient.narrow(0, 0, unit->layout().numel()).normal_();
    }
  }

  OptimOptions options_{.betas = {0.8, 0.9}, .eps = 1e-6, .weight_decay = 0.3};
  LocalCommunicator comm_;
  ShardedModel model_;
  AdamW optim_;
};

TEST_F(Optimizer, MovesWeightsAsThePaperSays) {
  for (std::size_t u = 0; u < model_.units().size(); ++u) {
    ASSERT_TRUE(at::equal(optim_.states()[u].exp_avg, at::zeros_like(model_.units()[u]->master())));
  }
  const Unit& unit = *model_.units()[1];
  std::vector<Exact> exact(static_cast<std::size_t>(unit.layout().numel()));
  for (std::size_t i = 0; i < exact.size(); ++i)
    exact[i].weight = static_cast<double>(unit.master().const_data_ptr<float>()[i]);
  for (int step = 1; step <= 5; ++step) {
    set_gradients(step);
    const double lr = 0.01 * step;
    const double factor = step == 3 ? 0.25 : 1.0;  // a clipped step among others
    for (std::size_t i = 0; i < exact.size(); ++i)
      exact[i].step(factor * static_cast<double>(unit.gradient().const_data_ptr<float>()[i]), step, lr,
                    options_);
    optim_.step(step, lr, factor);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(unit.master().const_data_ptr<float>()[i]), exact[i].weight, 2e-6)
          << "weight " << i << " after step " << step;
    }
  }
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    EXPECT_NEAR(optim_.states()[1].exp_avg[at].item<double>(), exact[i].exp_avg, 1e-6);
    EXPECT_NEAR(optim_.states()[1].exp_avg_sq[at].item<double>(), exact[i].exp_avg_sq, 1e-6);
  }
}

TEST_F(Optimizer, PaddingStaysZero) {
  for (int step = 1; step <= 3; ++step) {
    set_gradients(step);
    optim_.step(step, 0.1, 0.5);
  }
  for (const auto& unit : model_.units()) {
    const std::int64_t padding = unit->master().numel() - unit->layout().numel();
    const at::Tensor rest = unit->master().narrow(0, unit->layout().numel(), padding);
    EXPECT_EQ(rest.abs().sum().item<double>(), 0.0) << unit->name();
  }
}

}  // namespace
}  // namespace echelon
