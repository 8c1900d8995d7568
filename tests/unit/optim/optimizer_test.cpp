#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

using test::SmallModel;

/// Every kind that moves each element by itself.
const std::vector<OptimOptions> kEveryKind{
    {.kind = OptimKind::kAdamW, .lr = 0.1},
    {.kind = OptimKind::kAnyPrecisionAdamW, .lr = 0.1},
    {.kind = OptimKind::kSgd, .lr = 0.1, .momentum = 0.9, .nesterov = true},
    {.kind = OptimKind::kAdadelta, .lr = 1.0},
};

OptimOptions with_groups(OptimOptions options) {
  options.no_decay = {"*norm*"};
  options.lr_factors = {{"model.layers.0.*", 0.5}};
  return options;
}

TEST(Optimizer, StatesStartAsZerosOfWhatIsTrained) {
  std::vector<OptimOptions> kinds = kEveryKind;
  kinds.push_back({.kind = OptimKind::kMuon, .lr = 0.1});
  for (const OptimOptions& options : kinds) {
    const SmallModel small(1, 3);
    const auto optimizer = std::make_unique<Optimizer>(options, small.model);
    EXPECT_EQ(optimizer->kind(), options.kind);
    EXPECT_FALSE(optimizer->states().empty());
    for (const OptimizerState& state : optimizer->states()) {
      ASSERT_EQ(state.slices.size(), small.model.units().size());
      for (std::size_t u = 0; u < state.slices.size(); ++u) {
        std::int64_t held = 0;
        for (const SlicePiece& piece : small.model.units()[u]->pieces())
          held += state.holds(*piece.part) ? piece.numel() : 0;
        EXPECT_EQ(state.slices[u].numel(), held);
        EXPECT_TRUE(options.kind == OptimKind::kMuon || held == small.model.units()[u]->trained_numel());
        EXPECT_EQ(state.slices[u].count_nonzero().item<int>(), 0)
            << word_of(options.kind) << " " << state.name;
      }
    }
  }
}

TEST(Optimizer, EachGroupMovesByItsOwnNumbers) {
  OptimOptions options = with_groups({.kind = OptimKind::kSgd, .weight_decay = 0.25});
  for (int rank = 0; rank < 3; ++rank) {
    const SmallModel small(rank, 3);
    small.fill(small.masters(), "weights");
    small.fill(small.gradients(), "gradients");
    const auto expected =
        mapped(small.model.units(), [](const auto& unit) { return unit->master().clone(); });
    small.for_each_piece(expected, [&](const SlicePiece& piece, at::Tensor values) {
      const std::string& name = piece.part->name;
      const double lr = name.starts_with("model.layers.0.") ? 0.05 : 0.1;
      const double decay = name.find("norm") != std::string::npos ? 0.0 : 0.25;
      const std::uint64_t key = stream_key(5, "gradients/" + name);
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        const double gradient =
            0.5 * static_cast<double>(normal_at(key, static_cast<std::uint64_t>(piece.begin + i)));
        values[i] -= lr * (gradient + decay * values[i].item<double>());
      }
    });
    std::make_unique<Optimizer>(options, small.model)->step(1, 0.1, 0.5);
    for (std::size_t u = 0; u < expected.size(); ++u)
      EXPECT_TRUE(at::allclose(small.masters()[u], expected[u], 1e-6, 1e-7))
          << "rank " << rank << " unit " << u;
  }
}

/// Three steps of one rank; what it holds of everything afterwards, by tensor name and first element.
using Values = std::map<std::pair<std::string, std::int64_t>, at::Tensor>;
void add_three_steps(const OptimOptions& options, int rank, int size, Values& values) {
  const SmallModel small(rank, size);
  const auto optimizer = std::make_unique<Optimizer>(options, small.model);
  for (int number = 1; number <= 3; ++number) {
    small.fill(small.gradients(), str("gradients", number));
    optimizer->step(number, options.lr, number == 2 ? 0.5 : 1.0);
  }
  const auto add = [&](const std::string& what, const std::vector<at::Tensor>& slices) {
    small.for_each_piece(slices, [&](const SlicePiece& piece, const at::Tensor& part) {
      for (std::int64_t i = 0; i < part.numel(); ++i)
        values[{what + piece.part->name, piece.begin + i}] = part[i];
    });
  };
  add("", small.masters());
  for (const OptimizerState& state : optimizer->states()) add(state.name + "/", state.slices);
}

TEST(Optimizer, ThreeRanksTogetherDoWhatOneDoes) {
  for (const OptimOptions& options : kEveryKind) {
    Values one;
    add_three_steps(with_groups(options), 0, 1, one);
    Values three;
    for (int rank = 0; rank < 3; ++rank) add_three_steps(with_groups(options), rank, 3, three);
    ASSERT_EQ(one.size(), three.size());
    for (const auto& [place, value] : one) {
      const double expected = value.item<double>();
      // Only where vector registers begin differs: the last bit of fp32, and what rounds on from there.
      const double tolerance = value.scalar_type() == at::kFloat ? 1e-5 : 1.0 / 128;
      ASSERT_NEAR(three.at(place).item<double>(), expected, tolerance * std::abs(expected) + 1e-7)
          << word_of(options.kind) << " " << place.first << " " << place.second;
    }
  }
}

TEST(Optimizer, WhatIsFrozenStaysAndTheRestMovesAsWithoutIt) {
  for (const OptimOptions& options : kEveryKind) {
    for (int rank = 0; rank < 3; ++rank) {
      const SmallModel all(rank, 3);
      const auto whole = std::make_unique<Optimizer>(options, all.model);
      OptimOptions some = options;
      some.lr_factors = {{"model.embed_tokens.*", 0}, {"*.q_proj.*", 0}, {"model.layers.0.mlp.*", 0}};
      const SmallModel part(rank, 3, some);
      const auto optimizer = std::make_unique<Optimizer>(some, part.model);
      std::map<std::string, at::Tensor> started;
      part.for_each_piece(part.masters(), [&](const SlicePiece& piece, const at::Tensor& values) {
        started[piece.part->name] = values.clone();
      });
      for (int number = 1; number <= 2; ++number) {
        for (const auto& [model, moves] : {std::pair(&all, whole.get()), {&part, optimizer.get()}}) {
          model->fill(model->gradients(), str("gradients", number));
          moves->step(number, options.lr, 1.0);
        }
      }
      std::map<std::string, at::Tensor> moved;
      all.for_each_piece(all.masters(), [&](const SlicePiece& piece, const at::Tensor& values) {
        moved[piece.part->name] = values;
      });
      part.for_each_piece(part.masters(), [&](const SlicePiece& piece, const at::Tensor& values) {
        const std::string& name = piece.part->name;
        EXPECT_TRUE(piece.part->frozen ? at::equal(values, started.at(name))
                                       : at::allclose(values, moved.at(name), 1e-5, 1e-7))
            << word_of(options.kind) << " " << name;
      });
    }
  }
}

TEST(Optimizer, PaddingStaysZero) {
  for (const OptimOptions& options : kEveryKind) {
    const SmallModel small(2, 3);
    const auto optimizer = std::make_unique<Optimizer>(options, small.model);
    for (int number = 1; number <= 3; ++number) {
      small.fill(small.gradients(), "gradients");
      optimizer->step(number, 0.1, 0.5);
    }
    for (const auto& unit : small.model.units()) {
      const std::int64_t used =
          unit->pieces().empty() ? 0 : unit->pieces().back().at + unit->pieces().back().numel();
      const at::Tensor padding = unit->master().narrow(0, used, unit->master().numel() - used);
      EXPECT_EQ(padding.count_nonzero().item<int>(), 0) << word_of(options.kind) << " " << unit->name();
    }
  }
}

}  // namespace
}  // namespace echelon
