#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace echelon {
namespace {

TEST(Half, EveryValueSurvivesTheWayThere) {
  for (std::uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << value;
    }
  }
}

TEST(Half, ValuesAreThoseOfTheStandard) {
  EXPECT_EQ(half_to_float(0x3C00), 1.0F);
  EXPECT_EQ(half_to_float(0xC000), -2.0F);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0F);
  EXPECT_EQ(half_to_float(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(half_to_float(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half_to_float(0x7E01)));
}

TEST(Half, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7BFFU; ++bits) {
    const float low = half_to_float(static_cast<std::uint16_t>(bits));
    const float high = half_to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;  // exact in single precision
    const std::uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(float_to_half(middle), even) << middle;
    ASSERT_EQ(float_to_half(std::nextafter(middle, high)), bits + 1) << middle;
    ASSERT_EQ(float_to_half(std::nextafter(middle, low)), bits) << middle;
  }
}

TEST(Bf16, EveryValueSurvivesTheWayThere) {
  for (std::uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    const auto bf16 = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_float(bf16);
    ASSERT_EQ(float_to_bf16(value), std::isnan(value) ? 0x7FC0 : bits) << bits;
  }
  EXPECT_EQ(bf16_to_float(0x3F80), 1.0F);
  EXPECT_EQ(bf16_to_float(0xC040), -3.0F);
}

TEST(Bf16, RoundsToNearestEvenAndOverflowsToInfinity) {
  for (std::uint32_t bits = 0x3F80; bits < 0x4080; ++bits) {
    const float low = bf16_to_float(static_cast<std::uint16_t>(bits));
    const float high = bf16_to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_bf16(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(float_to_bf16(std::nextafter(middle, high)), bits + 1) << middle;
    EXPECT_EQ(float_to_bf16(std::nextafter(middle, low)), bits) << middle;
  }
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7FFFFFFFU)), 0x7FC0) << "a NaN";
}

TEST(Half, OverflowIsInfinity) {
  EXPECT_EQ(float_to_half(65519.0F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(-1e30F), 0xFC00);
}

}  // namespace
}  // namespace echelon
