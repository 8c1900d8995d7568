#include "base/options/patterns.h"

#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(Patterns, StarCrossesDots) {
  EXPECT_TRUE(matches("model.layers.*", "model.layers.3.mlp"));
  EXPECT_TRUE(matches("*norm*", "model.layers.0.input_layernorm.weight"));
  EXPECT_TRUE(matches("model.layers.[02].mlp", "model.layers.2.mlp"));
  EXPECT_FALSE(matches("model.layers", "model.layers.3"));
  EXPECT_FALSE(matches("model.layers.?", "model.layers.10"));
}

TEST(Patterns, AnyOfNoneIsFalse) {
  EXPECT_FALSE(matches_any({}, "x"));
  EXPECT_TRUE(matches_any({"y", "x"}, "x"));
}

}  // namespace
}  // namespace echelon
