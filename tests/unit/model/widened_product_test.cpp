#include "model/ops/products/widened_product.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/kernels/bf16_products.h"
#include "model/ops/ops.h"
#include "model/ops/products/product.h"
#include "unit/model/tensors.h"

namespace echelon::ops {
namespace {

/// On a processor without instructions for bf16 and fp16.
class Widened : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  Widened() {
    kernels::imitate_processor(&old_);
    at::manual_seed(5);
  }
  ~Widened() override { kernels::imitate_processor(nullptr); }
  Widened(const Widened&) = delete;
  Widened& operator=(const Widened&) = delete;

  /// Values that this type holds, in fp64, which sum and round exactly.
  [[nodiscard]] static at::Tensor random(at::IntArrayRef shape) { return at::randn(shape).to(GetParam()); }

 private:
  const kernels::ProcessorWords old_;
};

INSTANTIATE_TEST_SUITE_P(Types, Widened, ::testing::Values(at::kBFloat16, at::kHalf));

/// Within one unit in the last place of what is right, plus what sums in fp32 lose where terms cancel.
void expect_rounded_once(const at::Tensor& actual, const at::Tensor& exact) {
  ASSERT_EQ(actual.sizes(), exact.sizes());
  const double digits = actual.scalar_type() == at::kHalf ? 0x1p-10 : 0x1p-7;
  const at::Tensor error = (actual.detach().to(at::kDouble) - exact).abs();
  EXPECT_TRUE((error <= digits * exact.abs() + 1e-4).all().item<bool>()) << error.max();
}

at::Tensor wide(const at::Tensor& narrow) {
  return narrow.detach().to(at::kDouble);
}

TEST_P(Widened, ProductsAreSumsInFp32RoundedOnce) {
  constexpr std::int64_t kShapes[][3] = {{1, 1, 1},     {3, 700, 5},  {1030, 40, 70}, {513, 520, 1100},
                                         {64, 128, 32}, {2, 1, 2000}, {0, 4, 3},      {4, 3, 0}};
  for (const auto& [m, n, k] : kShapes) {
    for (const bool turned : {false, true}) {
      SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " " << turned);
      const at::Tensor a = turned ? random({k, m}).t() : random({m, k});
      const at::Tensor b = turned ? random({k, n + 3}).narrow(1, 1, n) : random({n, k}).t();
      ASSERT_TRUE(goes_by_fp32(a));
      const at::Tensor c = product(a, b);
      expect_rounded_once(c, at::mm(wide(a), wide(b)));
      const at::Tensor place = turned ? random({n, m}).t() : random({m, n});
      const at::Tensor before = wide(place);
      product_into(place, a, b, true);
      expect_rounded_once(place, before + at::mm(wide(a), wide(b)));
    }
  }
}

TEST_P(Widened, ProductsTakeOperandsWithoutNeighborsInMemory) {
  const at::Tensor a = random({9, 20, 2}).select(2, 1);
  const at::Tensor b = random({20, 7, 3}).select(2, 2);
  const at::Tensor c = random({9, 7, 2});
  product_into(c.select(2, 0), a, b, false);
  expect_rounded_once(c.select(2, 0), at::mm(wide(a), wide(b)));
}

TEST_P(Widened, ProductsOfBatchesHaveGradients) {
  for (const bool shared : {false, true}) {
    at::Tensor a = random({2, 3, 5, 8}).permute({0, 1, 3, 2}).detach().requires_grad_();
    at::Tensor b = (shared ? random({5, 6}) : random({2, 3, 5, 6})).detach().requires_grad_();
    at::Tensor exact_a = wide(a).requires_grad_();
    at::Tensor exact_b = wide(b).requires_grad_();
    const at::Tensor c = ops::matmul(a, b);
    const at::Tensor exact = at::matmul(exact_a, exact_b);
    expect_rounded_once(c, exact.detach());
    const at::Tensor dc = random(c.sizes());
    c.backward(dc);
    exact.backward(wide(dc));
    expect_rounded_once(a.grad(), exact_a.grad());
    expect_rounded_once(b.grad(), exact_b.grad());
  }
}

TEST_P(Widened, ConvolutionsHaveGradients) {
  at::Tensor x = random({70, 2, 7, 6}).detach().requires_grad_();
  at::Tensor weight = random({4, 2, 3, 3}).detach().requires_grad_();
  at::Tensor bias = random({4}).detach().requires_grad_();
  at::Tensor exact_x = wide(x).requires_grad_();
  at::Tensor exact_weight = wide(weight).requires_grad_();
  at::Tensor exact_bias = wide(bias).requires_grad_();
  const at::Tensor y = ops::convolution(x, weight, bias);
  const at::Tensor exact = at::conv2d(exact_x, exact_weight, exact_bias);
  expect_rounded_once(y, exact.detach());
  const at::Tensor dy = random(y.sizes());
  y.backward(dy);
  exact.backward(wide(dy));
  expect_rounded_once(x.grad(), exact_x.grad());
  expect_rounded_once(weight.grad(), exact_weight.grad());
  expect_rounded_once(bias.grad(), exact_bias.grad());
}

TEST_P(Widened, ScratchIsBounded) {
  kernels::Product<kernels::Fp16> large{};
  large.m = large.n = large.k = 1 << 20;
  EXPECT_LE(widened_product<kernels::Fp16>().workspace(large), 3U << 20);
}

}  // namespace
}  // namespace echelon::ops
