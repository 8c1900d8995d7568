#include "shard/precision.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace echelon {
namespace {

TEST(Precision, WhatIsUnsetIsNotCast) {
  const Precision none = resolve({});
  for (const at::ScalarType type : {none.param, none.reduce, none.buffer, none.output, none.master})
    EXPECT_EQ(type, at::kFloat);
  const Precision param = resolve({.param = FloatType::kBf16});
  EXPECT_EQ(param.param, at::kBFloat16);
  EXPECT_EQ(param.reduce, at::kBFloat16) << "gradients have the type of what they belong to";
  EXPECT_EQ(param.output, at::kBFloat16);
  EXPECT_EQ(param.buffer, at::kFloat);
  EXPECT_EQ(param.master, at::kFloat);
}

TEST(Precision, LibrariesRoundOnlyWhatTheRecipeLetsThem) {
  const at::Context& context = at::globalContext();
  for (const bool tf32 : {true, false}) {
    limit_rounding({.tf32 = tf32});
    EXPECT_EQ(context.allowTF32CuBLAS(), tf32);
    EXPECT_EQ(context.allowTF32CuDNN(), tf32);
    EXPECT_EQ(context.allowBF16ReductionCuBLAS(),
              at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK);
    EXPECT_EQ(context.allowFP16ReductionCuBLAS(),
              at::CuBLASReductionOption::DisallowReducedPrecisionAllowSplitK);
  }
}

TEST(Precision, PresetsAreThoseOfTheTutorials) {
  const Precision mixed = resolve({.preset = PrecisionPreset::kBf16Fp32Reduce});
  EXPECT_EQ(mixed.param, at::kBFloat16);
  EXPECT_EQ(mixed.reduce, at::kFloat);
  EXPECT_EQ(mixed.buffer, at::kBFloat16);
  const Precision gradients = resolve({.preset = PrecisionPreset::kGradBf16});
  EXPECT_EQ(gradients.param, at::kFloat);
  EXPECT_EQ(gradients.reduce, at::kBFloat16);
  const Precision half = resolve({.preset = PrecisionPreset::kFp16});
  EXPECT_EQ(half.reduce, at::kHalf);
  const Precision pure = resolve({.preset = PrecisionPreset::kBf16Pure});
  EXPECT_EQ(pure.master, at::kBFloat16);
}

TEST(Precision, AKeyCountsBeforeThePreset) {
  const Precision precision =
      resolve({.preset = PrecisionPreset::kBf16, .reduce = FloatType::kFp32, .output = FloatType::kFp32});
  EXPECT_EQ(precision.param, at::kBFloat16);
  EXPECT_EQ(precision.reduce, at::kFloat);
  EXPECT_EQ(precision.output, at::kFloat);
}

TEST(Precision, HasAScalarTypeForEveryTypeThatIsSet) {
  EXPECT_EQ(scalar_type(FloatType::kBf16), at::kBFloat16);
  EXPECT_EQ(scalar_type(FloatType::kFp32), at::kFloat);
  EXPECT_EQ(scalar_type(FloatType::kFp16), at::kHalf);
  EXPECT_THROW((void)scalar_type(FloatType::kUnset), Error);
}

}  // namespace
}  // namespace echelon
