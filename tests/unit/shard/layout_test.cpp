#include "shard/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "base/str.h"

namespace echelon {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Parameters of these shapes; every third one is stacked from two parts.
std::vector<std::unique_ptr<Parameter>> parameters_of(const Shapes& shapes) {
  std::vector<std::unique_ptr<Parameter>> made;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "p" + std::to_string(i);
    if (i % 3 == 2) {
      made.push_back(std::make_unique<Parameter>(
          std::vector<Parameter::Part>{{name + ".a", shapes[i]}, {name + ".b", shapes[i]}}, InitSpec{}));
    } else {
      made.push_back(std::make_unique<Parameter>(name, shapes[i], InitSpec{}));
    }
  }
  return made;
}

std::vector<Parameter*> pointers(const std::vector<std::unique_ptr<Parameter>>& parameters) {
  return mapped(parameters, [](const auto& parameter) { return parameter.get(); });
}

TEST(Layout, WhatIsTrainedHasPlacesOfItsOwnOneAfterAnother) {
  const auto parameters = parameters_of({{7}, {11, 13}, {17, 3}, {64}, {500, 3}});
  for (const auto& parameter : parameters)
    parameter->freeze([](const std::string& name) { return name == "p1" || name == "p2.b"; });
  EXPECT_FALSE(parameters[1]->trained());
  EXPECT_TRUE(parameters[2]->trained()) << "p2.a is";
  const std::int64_t trained = 7 + 17 * 3 + 64 + 500 * 3;
  for (int ranks = 1; ranks <= 7; ++ranks) {
    const FlatLayout layout(pointers(parameters), ranks);
    const auto trained_part = [](const Parameter::Part& part) { return !part.frozen; };
    std::int64_t held = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t next = 0;
      for (const SlicePiece& piece : packed(layout.pieces(rank), trained_part)) {
        EXPECT_FALSE(piece.part->frozen);
        EXPECT_EQ(piece.at, next);
        next += piece.numel();
      }
      held += next;
    }
    EXPECT_EQ(held, trained) << ranks;
  }
}

class Layouts : public ::testing::TestWithParam<Shapes> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Layouts,
                         ::testing::Values(Shapes{{1}}, Shapes{{64}}, Shapes{{65}, {1}}, Shapes{{3, 5}},
                                           Shapes{{7}, {11, 13}, {17, 3}, {1}, {500, 3}},
                                           Shapes{{768}, {48, 768}, {96, 48}, {2}},
                                           Shapes{{1}, {1}, {1, 1}, {1}, {1}, {1, 1}}));

TEST_P(Layouts, PiecesOfAllRanksHoldEveryElementOnce) {
  const auto parameters = parameters_of(GetParam());
  for (int ranks = 1; ranks <= 7; ++ranks) {
    const FlatLayout layout(pointers(parameters), ranks);
    std::map<const Parameter::Part*, std::vector<int>> held;
    for (const auto& parameter : parameters) {
      for (const auto& part : parameter->parts()) held[&part].resize(static_cast<std::size_t>(part.numel()));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      for (const SlicePiece& piece : layout.pieces(rank)) {
        ASSERT_LT(piece.begin, piece.end);
        for (std::int64_t i = piece.begin; i < piece.end; ++i) ++held.at(piece.part).at(i);
      }
    }
    for (const auto& [part, counts] : held)
      EXPECT_EQ(counts, std::vector<int>(counts.size(), 1)) << part->name << " on " << ranks;
  }
}

TEST_P(Layouts, PiecesLieWhereTheGatheredBufferHasThem) {
  const auto parameters = parameters_of(GetParam());
  for (int ranks = 1; ranks <= 7; ++ranks) {
    const FlatLayout layout(pointers(parameters), ranks);
    std::map<const Parameter::Part*, std::int64_t> starts;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::int64_t at = layout.offset(i);
      for (const auto& part : layout.parameters()[i]->parts()) {
        starts[&part] = at;
        at += part.numel();
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t filled = 0;
      for (const SlicePiece& piece : layout.pieces(rank)) {
        EXPECT_EQ(piece.at, filled) << "a gap or an overlap in the slice";
        filled = piece.at + piece.end - piece.begin;
        EXPECT_EQ(rank * layout.slice_numel() + piece.at, starts.at(piece.part) + piece.begin);
      }
      EXPECT_LE(filled, layout.slice_numel());
    }
  }
}

TEST_P(Layouts, SlicesAreEqualAlignedAndPaddedLittle) {
  const auto parameters = parameters_of(GetParam());
  std::int64_t numel = 0;
  for (const auto& parameter : parameters) numel += parameter->numel();
  for (int ranks = 1; ranks <= 7; ++ranks) {
    const FlatLayout layout(pointers(parameters), ranks);
    EXPECT_EQ(layout.numel(), numel);
    EXPECT_EQ(layout.padded_numel(), layout.slice_numel() * ranks);
    EXPECT_GE(layout.padded_numel(), numel);
    EXPECT_EQ(layout.slice_numel() % 64, 0);
    EXPECT_LT(layout.slice_numel() - 64, (numel + ranks - 1) / ranks);
  }
}

TEST(FlatLayout, OneOddParameterPushesNoOtherOffItsBorder) {
  const auto parameters = parameters_of({{3}, {64}, {10}, {16, 8}, {1}, {8}});
  const FlatLayout layout(pointers(parameters), 2);
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    if (layout.parameters()[i]->numel() % 8 == 0) {
      EXPECT_EQ(layout.offset(i) % 8, 0) << i;
    }
  }
  EXPECT_EQ(layout.numel(), 3 + 64 + 2 * 10 + 128 + 1 + 2 * 8);
}

TEST(FlatLayout, RanksBeyondTheElementsHoldPaddingOnly) {
  const auto parameters = parameters_of({{70}});
  const FlatLayout layout(pointers(parameters), 5);
  EXPECT_EQ(layout.pieces(0).size(), 1U);
  EXPECT_EQ(layout.pieces(1).size(), 1U);
  for (int rank = 2; rank < 5; ++rank) EXPECT_TRUE(layout.pieces(rank).empty()) << rank;
}

}  // namespace
}  // namespace echelon
