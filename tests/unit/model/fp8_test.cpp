#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/model.h"
#include "model/ops/ops.h"
#include "model/ops/products/fp8_matrix.h"
#include "support/unsharded.h"
#include "unit/model/reference.h"
#include "unit/model/tensors.h"

namespace echelon::ops {
namespace {

using test::language_batch;
using test::materialize;
using test::relative_error;

using test::Fp8Format;
using test::kE4m3;
using test::kE5m2;
using test::nearest;

at::ScalarType type_of(const Fp8Format& format) {
  return format.mantissa == kE5m2.mantissa ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}

/// torchao: fp8max / clamp(amax, 1e-12) in fp64, then fp32.
float scale_of(const Fp8Format& format, const at::Tensor& matrix) {
  return static_cast<float>(format.largest / std::max(1e-12, matrix.abs().max().item<double>()));
}

/// What the elements of `matrix` stand for in fp8, fp64.
at::Tensor rounded(const Fp8Format& format, const at::Tensor& matrix) {
  const float scale = scale_of(format, matrix);
  const at::Tensor wide = matrix.detach().to(at::kFloat).contiguous();
  at::Tensor result = at::empty(wide.sizes(), at::kDouble);
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    result.mutable_data_ptr<double>()[i] =
        nearest(format, static_cast<double>(wide.const_data_ptr<float>()[i] * scale)) *
        static_cast<double>(1 / scale);
  }
  return result;
}

Fp8Matrix in_rows(const at::Tensor& matrix, at::ScalarType type) {
  return to_fp8(matrix, type, fp8_scale(matrix, type), {.rows = true}).rows;
}

at::Tensor values(const Fp8Matrix& matrix) {
  return matrix.elements.to(at::kDouble) * matrix.factor.to(at::kDouble);
}

TEST(Fp8Matrix, HoldsTheNearestValues) {
  at::manual_seed(2);
  for (const Fp8Format& format : {kE4m3, kE5m2}) {
    for (const double spread : {1e-30, 1e-9, 1.0, 3e4}) {
      const at::Tensor matrix = (at::randn({40, 33}) * at::randn({40, 1}).exp() * spread).to(at::kBFloat16);
      const Fp8Matrix made = in_rows(matrix, type_of(format));
      const float scale = scale_of(format, matrix);
      EXPECT_TRUE(fp8_scale(matrix, type_of(format)).equal(at::tensor({scale, 1 / scale})));
      EXPECT_TRUE(values(made).equal(rounded(format, matrix))) << type_of(format) << ' ' << spread;
    }
  }
}

// The kernel of a GPU is held to the same definition (gpu/fp8_kernels.cpp).
TEST(Fp8Matrix, EveryBf16InRangeBecomesTheNearestValue) {
  const at::Tensor all = at::arange(-32768, 32768, at::kShort).view(at::kBFloat16);
  for (const Fp8Format& format : {kE4m3, kE5m2}) {
    const at::Tensor in_range = all.masked_select(all.abs() <= format.largest);
    const at::Tensor matrix = at::constant_pad_nd(in_range, {0, -in_range.numel() & 15}).view({-1, 16});
    const at::Tensor made = to_fp8(matrix, type_of(format), at::ones({2}), {.rows = true}).rows.elements;
    const at::Tensor wide = matrix.to(at::kDouble);
    const at::Tensor found = made.to(at::kDouble);
    for (std::int64_t i = 0; i < wide.numel(); ++i) {
      const double value = wide.const_data_ptr<double>()[i];
      ASSERT_EQ(found.const_data_ptr<double>()[i], nearest(format, value)) << value;
      ASSERT_EQ(std::signbit(found.const_data_ptr<double>()[i]), std::signbit(value)) << value;
    }
  }
}

TEST(Fp8Matrix, TheLargestElementBecomesTheLargestOfTheType) {
  for (const Fp8Format& format : {kE4m3, kE5m2}) {
    for (int bits = 0x2C00; bits < 0x7F80; bits += 61) {  // from 1.8e-12, which is above the least amax
      const auto amax =
          static_cast<double>(c10::BFloat16(static_cast<std::uint16_t>(bits), c10::BFloat16::from_bits()));
      const at::Tensor pair = at::tensor({amax, -amax}).to(at::kBFloat16).view({1, 2});
      const at::Tensor made = in_rows(pair, type_of(format)).elements.to(at::kDouble);
      ASSERT_EQ(made[0][0].item<double>(), format.largest) << amax;
      ASSERT_EQ(made[0][1].item<double>(), -format.largest) << amax;
    }
  }
}

TEST(Fp8Matrix, OfZerosGivesZeros) {
  const Fp8Matrix zeros = in_rows(at::zeros({16, 16}, at::kBFloat16), at::kFloat8_e4m3fn);
  const Fp8Matrix ones = in_rows(at::ones({16, 16}, at::kBFloat16), at::kFloat8_e4m3fn);
  EXPECT_TRUE(fp8_product(zeros, ones, at::kFloat, true).equal(at::zeros({16, 16})));
}

TEST(Fp8Matrix, ANanOrAnInfinityIsSeenInEveryResult) {
  const Fp8Matrix ones = in_rows(at::ones({16, 16}, at::kBFloat16), at::kFloat8_e4m3fn);
  for (const at::ScalarType type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    for (const double wrong : {NAN, INFINITY, -INFINITY}) {
      at::Tensor matrix = at::ones({16, 16}, at::kBFloat16);
      matrix[3][5] = wrong;
      EXPECT_TRUE(fp8_product(in_rows(matrix, type), ones, at::kFloat, true).isnan().all().item<bool>())
          << wrong;
    }
  }
}

TEST(Fp8Matrix, IsTransposedWithZerosUpToAMultipleOf16) {
  const at::Tensor matrix = at::randn({35, 16});
  const at::Tensor scale = fp8_scale(matrix, at::kFloat8_e5m2);
  const Fp8Orders both = to_fp8(matrix, at::kFloat8_e5m2, scale, {.rows = true, .transposed = true});
  const Fp8Orders alone = to_fp8(matrix, at::kFloat8_e5m2, scale, {.transposed = true});
  EXPECT_FALSE(alone.rows.elements.defined());
  for (const Fp8Matrix& turned : {both.transposed, alone.transposed}) {
    ASSERT_EQ(turned.elements.sizes(), at::IntArrayRef({16, 48}));
    const at::Tensor all = turned.elements.to(at::kFloat);
    EXPECT_TRUE(all.narrow(1, 0, 35).equal(both.rows.elements.to(at::kFloat).t()));
    EXPECT_TRUE(all.narrow(1, 35, 13).equal(at::zeros({16, 13})));
  }
}

TEST(Fp8Matrix, ProductsAreThoseOfTheValuesAndOfPyTorch) {
  at::manual_seed(3);
  for (const Fp8Format& format : {kE4m3, kE5m2}) {
    for (const std::int64_t rows : {1, 7, 48}) {
      const Fp8Matrix a = in_rows(at::randn({rows, 64}).to(at::kBFloat16), type_of(format));
      const Fp8Matrix b = in_rows(at::randn({32, 64}).to(at::kBFloat16), at::kFloat8_e4m3fn);
      const at::Tensor ours = fp8_product(a, b, at::kFloat, false);
      EXPECT_LT(relative_error(ours, at::mm(values(a), values(b).t())), 1e-6);
      const at::Tensor theirs =
          at::_scaled_mm(a.elements, b.elements.t(), a.factor, b.factor, {}, {}, at::kFloat, false);
      EXPECT_LT(relative_error(ours, theirs), 1e-6);
      at::Tensor sum = at::ones({rows, 32});
      fp8_product_into(sum, a, b, false, true);
      EXPECT_LT(relative_error(sum, ours + 1), 1e-6);
    }
  }
}

/// Type; rows, which need not be a multiple of 16; a sink for the gradients; x is made again in backward.
struct Way {
  at::ScalarType type;
  std::int64_t rows;
  bool sink;
  bool again;
};

class Fp8Linear : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, Fp8Linear,
                         ::testing::Values(Way{at::kFloat, 48, false, false},
                                           Way{at::kFloat, 29, true, false}, Way{at::kFloat, 29, false, true},
                                           Way{at::kBFloat16, 29, true, true}));

TEST_P(Fp8Linear, HasTheResultsAndGradientsOfRoundedOperands) {
  at::manual_seed(4);
  const Way way = GetParam();
  const double tolerance = way.type == at::kFloat ? 2e-6 : 5e-3;
  Parameter w("w", {32, 16}, {});
  Parameter bias("b", {32}, {});
  test::MemorySink sink;
  w.value = at::randn({32, 16}).to(way.type).requires_grad_(true);
  bias.value = at::randn({32}).to(way.type).requires_grad_(true);
  if (way.sink) w.sink = &sink;
  at::Tensor expected = at::zeros({32, 16}, at::kDouble);
  for (int pass = 0; pass < 2; ++pass) {  // the second adds to the gradient of the first
    const at::Tensor x = at::randn({way.rows, 16}).to(way.type).requires_grad_(true);
    const at::Tensor dy = at::randn({way.rows, 32}).to(way.type);
    const Recompute again = way.again ? Recompute([x] { return x.detach(); }) : Recompute();
    const at::Tensor y = fp8_linear(x, w, again, &bias);
    y.backward(dy);
    const at::Tensor x8 = rounded(kE4m3, x);
    const at::Tensor w8 = rounded(kE4m3, w.value);
    const at::Tensor dy8 = rounded(kE5m2, dy);
    EXPECT_EQ(y.scalar_type(), way.type);
    EXPECT_LT(relative_error(y, at::mm(x8, w8.t()) + bias.value.detach().to(at::kDouble)), tolerance);
    EXPECT_LT(relative_error(x.grad(), at::mm(dy8, w8)), tolerance);
    expected += at::mm(dy8.t(), x8);
    EXPECT_LT(relative_error(way.sink ? w.gradient : w.value.grad(), expected), tolerance) << pass;
  }
  EXPECT_EQ(sink.opened, way.sink ? 2 : 0);
}

TEST(Fp8Linear, OfAFrozenWeightGivesTheInputsGradientAlone) {
  Parameter w("w", {32, 16}, {});
  w.value = at::randn({32, 16});
  const at::Tensor x = at::randn({8, 16}).requires_grad_(true);
  const at::Tensor dy = at::randn({8, 32});
  fp8_linear(x, w).backward(dy);
  EXPECT_LT(relative_error(x.grad(), at::mm(rounded(kE5m2, dy), rounded(kE4m3, w.value))), 2e-6);
  EXPECT_FALSE(w.value.grad().defined());
}

TEST(Fp8Linear, OfAFrozenWeightAndInputTrainsTheBias) {
  Parameter w("w", {32, 16}, {});
  Parameter bias("b", {32}, {});
  w.value = at::randn({32, 16});
  bias.value = at::randn({32}).requires_grad_(true);
  const at::Tensor dy = at::randn({8, 32});
  fp8_linear(at::randn({8, 16}), w, {}, &bias).backward(dy);
  EXPECT_LT(relative_error(bias.value.grad(), dy.sum(0)), 2e-6);
}

ModelOptions small(ModelKind kind) {
  return {.kind = kind,
          .vocab_size = 64,
          .hidden_size = 32,
          .intermediate_size = 48,
          .layers = 2,
          .heads = 2,
          .kv_heads = 1,
          .max_positions = 32,
          .init_std = 0.2};
}

TEST(Fp8Model, UsesFp8InTheBlocksOfTrainingPassesAlone) {
  const at::Tensor ids = at::randint(0, 64, {2, 17}, at::kLong);
  for (const ModelKind kind : {ModelKind::kLlama, ModelKind::kGpt2, ModelKind::kPhi3}) {
    const auto loss_of = [&](bool fp8, bool training) {
      const auto model = build_model(small(kind), {at::kBFloat16, at::kBFloat16, fp8}, at::kCPU);
      materialize(*model, 3, at::kBFloat16);
      int matrices = 0;
      for (const Parameter* parameter : model->parameters()) matrices += parameter->fp8 ? 1 : 0;
      EXPECT_EQ(matrices, fp8 ? 2 * 4 : 0) << "in, out, up and down of each block";
      Batch batch = language_batch(ids);
      batch.training = training;
      return model->loss(batch, 1.0).item<double>();
    };
    const double exact = loss_of(false, true);
    EXPECT_EQ(loss_of(true, false), exact);
    EXPECT_NE(loss_of(true, true), exact);
    EXPECT_NEAR(loss_of(true, true), exact, 0.02 * exact);
  }
}

}  // namespace
}  // namespace echelon::ops
