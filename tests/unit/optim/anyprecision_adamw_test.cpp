#include "optim/anyprecision_adamw.h"

#include "base/error.h"
#include "base/str.h"
#include "unit/optim/rule_check.h"

namespace echelon {
namespace {

OptimOptions options_of(FloatType moments, bool kahan) {
  return {.kind = OptimKind::kAnyPrecisionAdamW,
          .betas = {0.8, 0.9},
          .eps = 1e-6,
          .weight_decay = 0.3,
          .momentum_dtype = moments,
          .variance_dtype = moments,
          .compensation_dtype = moments,
          .kahan = kahan};
}

TEST(AnyPrecisionAdamW, InFp32ItIsAdamW) {
  const OptimOptions options = options_of(FloatType::kFp32, false);
  test::expect_follows<test::ExactAdamW>(options, 2e-6);
}

/// Weights and states as they are in the middle of a training run.
UpdateRange in_training(const UpdateRule& rule, at::ScalarType weights) {
  at::manual_seed(9);
  UpdateRange range = test::range_of(rule, at::randn({1003}).to(weights));
  range.gradient.normal_();
  range.states[0].copy_(at::randn({1003}) * 0.3);
  range.states[1].copy_(at::rand({1003}) + 0.01);
  if (range.states.size() > 2) range.states[2].copy_(at::randn({1003}) * 1e-3);
  return range;
}

UpdateRange copy_of(const UpdateRange& range) {
  UpdateRange copy{range.weights.clone(), range.gradient.clone(), {}};
  for (const at::Tensor& state : range.states) copy.states.push_back(state.clone());
  return copy;
}

/// fp32 within a few roundings; bf16 the same bits but for values that lie near the middle of two.
void expect_same(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  const at::Tensor difference = (actual.to(at::kDouble) - expected.to(at::kDouble)).abs();
  const at::Tensor size = expected.to(at::kDouble).abs();
  if (actual.scalar_type() == at::kFloat) {
    EXPECT_LE((difference - 1e-6 * size).max().item<double>(), 1e-7) << what;
  } else {
    EXPECT_LE((difference - size / 128).max().item<double>(), 1e-5) << what;
    EXPECT_LE((difference > 0).sum().item<int>(), 5) << what << ": elements that differ";
  }
}

TEST(AnyPrecisionAdamW, OnePassIsTheChainOfTensorOperationsForEveryMixOfTypes) {
  constexpr std::array kTypes{FloatType::kFp32, FloatType::kBf16};
  for (int mix = 0; mix < 32; ++mix) {
    const auto type = [&](int bit) { return kTypes.at(static_cast<std::size_t>(mix >> bit & 1)); };
    OptimOptions options = options_of(FloatType::kBf16, (mix & 16) != 0);
    options.momentum_dtype = type(1);
    options.variance_dtype = type(2);
    options.compensation_dtype = type(3);
    const AnyPrecisionAdamW rule(options);
    const UpdateRange start = in_training(rule, (mix & 1) != 0 ? at::kBFloat16 : at::kFloat);
    for (const double factor : {1.0, 0.125}) {
      const UpdateValues values{
          .number = 5, .lr = 0.01, .weight_decay = options.weight_decay, .gradient_factor = factor};
      const UpdateRange pass = copy_of(start);
      rule.update(values, std::span(&pass, 1));
      const UpdateRange chain = copy_of(start);
      rule.update_by_tensor_operations(values, chain);
      const std::string what =
          str("weights ", word_of(type(0)), ", moments ", word_of(type(1)), " ", word_of(type(2)),
              ", compensation ", options.kahan ? word_of(type(3)) : "none", ": ");
      expect_same(pass.weights, chain.weights, what + "weights");
      for (std::size_t s = 0; s < start.states.size(); ++s) {
        expect_same(pass.states[s], chain.states[s], what + rule.states()[s].name);
        EXPECT_FALSE(at::equal(pass.states[s], start.states[s])) << what << "a state stood still";
      }
    }
  }
}

/// Distance of bf16 weights near 1 from those of fp32 AdamW after 200 steps that are each a small part of the
/// difference between two bf16 numbers there.
double distance_after_small_steps(bool kahan) {
  OptimOptions options = options_of(FloatType::kBf16, kahan);
  options.weight_decay = 0;
  OptimOptions exact = options_of(FloatType::kFp32, false);
  exact.weight_decay = 0;
  const AnyPrecisionAdamW low(options);
  const AnyPrecisionAdamW high(exact);
  const at::Tensor start = at::full({64}, 1.25F);
  UpdateRange rounded = test::range_of(low, start.to(at::kBFloat16));
  UpdateRange reference = test::range_of(high, start.clone());
  for (int number = 1; number <= 200; ++number) {
    rounded.gradient.fill_(0.5);
    reference.gradient.fill_(0.5);
    const UpdateValues values{.number = number, .lr = 2e-4};
    low.update(values, std::span(&rounded, 1));
    high.update(values, std::span(&reference, 1));
  }
  EXPECT_LT(reference.weights[0].item<double>(), 1.25 - 0.03);
  return (rounded.weights.to(at::kDouble) - reference.weights.to(at::kDouble)).abs().max().item<double>();
}

TEST(AnyPrecisionAdamW, KahanSummationSavesUpdatesThatBf16WeightsWouldLose) {
  EXPECT_GT(distance_after_small_steps(false), 0.03) << "without it no step is large enough to count";
  EXPECT_LT(distance_after_small_steps(true), 1.0 / 128) << "with it the error stays at one rounding";
}

TEST(AnyPrecisionAdamW, KeepsItsStatesInTheTypesAskedFor) {
  const auto states =
      AnyPrecisionAdamW({.momentum_dtype = FloatType::kFp32, .variance_dtype = FloatType::kBf16}).states();
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].name, "exp_avg");
  EXPECT_EQ(states[0].dtype, at::kFloat);
  EXPECT_EQ(states[1].name, "exp_avg_sq");
  EXPECT_EQ(states[1].dtype, at::kBFloat16);
  EXPECT_EQ(states[2].name, "compensation");
  EXPECT_EQ(states[2].dtype, at::kBFloat16);
  EXPECT_EQ(AnyPrecisionAdamW({.kahan = false}).states().size(), 2U);
}

}  // namespace
}  // namespace echelon
