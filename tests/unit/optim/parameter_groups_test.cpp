#include "optim/parameter_groups.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::SmallModel;

std::string refusal(const OptimOptions& options, const ShardedModel& model) {
  return test::refusal(Code::kUsage, [&] { return parameter_groups(options, model); });
}

TEST(ParameterGroups, WithoutPatternsThereIsOneRangeForEachUnit) {
  const SmallModel small;
  const auto groups = parameter_groups({}, small.model);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_TRUE(groups[0].decays);
  EXPECT_EQ(groups[0].lr_factor, 1.0);
  ASSERT_EQ(groups[0].ranges.size(), small.model.units().size());
  for (std::size_t u = 0; u < groups[0].ranges.size(); ++u) {
    EXPECT_EQ(groups[0].ranges[u].unit, u);
    EXPECT_EQ(groups[0].ranges[u].begin, 0);
    EXPECT_EQ(groups[0].ranges[u].end, small.model.units()[u]->layout().numel());
  }
}

TEST(ParameterGroups, NeighborsWithTheSameNumbersAreOneRange) {
  const SmallModel small;
  const auto groups = parameter_groups({.no_decay = {"*.layers.*"}}, small.model);
  ASSERT_EQ(groups.size(), 2U);
  for (const ParameterGroup& group : groups) {
    for (std::size_t r = 1; r < group.ranges.size(); ++r)
      EXPECT_NE(group.ranges[r].unit, group.ranges[r - 1].unit) << "a layer is one range";
  }
}

TEST(ParameterGroups, EveryElementGetsTheNumbersOfItsParameterOnEveryRank) {
  const OptimOptions options{.no_decay = {"*norm*", "model.embed_tokens.*"},
                             .lr_factors = {{"model.layers.*", 0.5}, {"*.1.mlp.*", 2}}};
  for (const int size : {1, 2, 3, 5}) {
    for (int rank = 0; rank < size; ++rank) {
      const SmallModel small(rank, size);
      std::vector<at::Tensor> decays;
      std::vector<at::Tensor> factors;
      for (const auto& unit : small.model.units()) {
        decays.push_back(at::full_like(unit->master(), -1.0));
        factors.push_back(at::full_like(unit->master(), -1.0));
      }
      for (const ParameterGroup& group : parameter_groups(options, small.model)) {
        for (const SliceRange& range : group.ranges) {
          at::Tensor decay = decays[range.unit].narrow(0, range.begin, range.end - range.begin);
          EXPECT_TRUE(decay.eq(-1.0).all().item<bool>()) << "an element in two ranges";
          decay.fill_(group.decays ? 1.0 : 0.0);
          factors[range.unit].narrow(0, range.begin, range.end - range.begin).fill_(group.lr_factor);
        }
      }
      small.for_each_piece(decays, [&](const SlicePiece& piece, const at::Tensor& values) {
        const std::string& name = piece.part->name;
        const bool none = name.find("norm") != std::string::npos || name.starts_with("model.embed_tokens.");
        EXPECT_TRUE(values.eq(none ? 0.0 : 1.0).all().item<bool>()) << name;
      });
      small.for_each_piece(factors, [&](const SlicePiece& piece, const at::Tensor& values) {
        const std::string& name = piece.part->name;
        const double factor = name.starts_with("model.layers.1.mlp.") ? 2.0
                              : name.starts_with("model.layers.")     ? 0.5
                                                                      : 1.0;
        EXPECT_TRUE(values.eq(factor).all().item<bool>()) << name;
      });
    }
  }
}

TEST(ParameterGroups, APatternWithoutParametersIsRefusedOnRanksThatHoldNothingToo) {
  for (int rank = 0; rank < 40; rank += 13) {
    const SmallModel small(rank, 40);
    const std::string decay = refusal({.no_decay = {"*norm*", "*.bias"}}, small.model);
    EXPECT_MENTIONS(decay, "optim.no_decay: pattern '*.bias' matches no parameter",
                    "'model.embed_tokens.weight'");
    const std::string factor = refusal({.lr_factors = {{"embed", 0.5}}}, small.model);
    EXPECT_MENTIONS(factor, "optim.lr_factors: pattern 'embed'");
    EXPECT_NO_THROW((void)parameter_groups({.no_decay = {"lm_head.weight"}}, small.model));
  }
}

TEST(ParameterGroups, OfSeveralFactorsTheLastThatMatchesCounts) {
  const SmallModel small;
  EXPECT_EQ(parameter_groups({.lr_factors = {{"*", 0.5}}}, small.model).at(0).lr_factor, 0.5);
  EXPECT_EQ(parameter_groups({.lr_factors = {{"lm_head*", 0.5}, {"*", 1e-2}}}, small.model).at(0).lr_factor,
            0.01);
}

TEST(ParameterGroups, WhatIsFrozenIsInNone) {
  const OptimOptions options{.lr_factors = {{"*", 0}, {"model.layers.1.*", 2}, {"*.k_proj.*", 0}}};
  for (int rank = 0; rank < 3; ++rank) {
    const SmallModel small(rank, 3, options);
    std::vector<at::Tensor> grouped;
    for (const auto& unit : small.model.units()) grouped.push_back(at::zeros_like(unit->master()));
    std::vector<std::int64_t> next(grouped.size(), 0);
    for (const ParameterGroup& group : parameter_groups(options, small.model)) {
      EXPECT_EQ(group.lr_factor, 2.0);
      for (const SliceRange& range : group.ranges) {
        EXPECT_EQ(range.trained_at, next[range.unit]);
        next[range.unit] += range.numel();
        grouped[range.unit].narrow(0, range.begin, range.numel()).fill_(1.0);
      }
    }
    for (std::size_t u = 0; u < next.size(); ++u) EXPECT_EQ(next[u], small.model.units()[u]->trained_numel());
    small.for_each_piece(grouped, [&](const SlicePiece& piece, const at::Tensor& values) {
      EXPECT_TRUE(values.eq(piece.part->frozen ? 0.0 : 1.0).all().item<bool>()) << piece.part->name;
    });
  }
}

TEST(ParameterGroups, SomethingMustBeTrained) {
  const std::string said = test::refusal(Code::kUsage, [] {
    const SmallModel small(0, 1, {.lr_factors = {{"lm_head.*", 2}, {"*", 0}}});
  });
  EXPECT_TRUE(said.starts_with("optim.lr_factors: the factor of every parameter is 0")) << said;
}

}  // namespace
}  // namespace echelon
