#include "model/ops/products/product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/kernels/bf16_products.h"
#include "model/kernels/product.h"
#include "unit/model/tensors.h"

namespace echelon::ops {
namespace {

using test::relative_error;

/// One rounding to bf16, seen over a whole matrix.
constexpr double kRounded = 3e-3;

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

/// Whole tiles of 8 x 48, edges in every direction, odd and long sums, and too small to be packed.
constexpr Shape kShapes[] = {{64, 96, 64},  {8, 48, 32},  {13, 50, 7},    {9, 8, 9},      {100, 47, 33},
                             {47, 300, 65}, {1, 90, 40},  {30, 1, 8},     {16, 64, 6146}, {11, 49, 13001},
                             {200, 17, 48}, {8, 999, 96}, {333, 129, 257}};

/// [rows, columns] of random values; `transposed`: columns along memory. Rows have foreign neighbors.
at::Tensor random(std::int64_t rows, std::int64_t columns, bool transposed,
                  at::ScalarType type = at::kBFloat16) {
  if (transposed) return random(columns, rows, false, type).t();
  return at::randn({rows, columns + 5}).to(type).narrow(1, 3, columns);
}

at::Tensor exact(const at::Tensor& a, const at::Tensor& b) {
  return at::mm(a.to(at::kDouble), b.to(at::kDouble));
}

class Products : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  Products() { at::manual_seed(3); }
};

INSTANTIATE_TEST_SUITE_P(Orientations, Products, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

TEST_P(Products, AreSumsInHigherPrecisionRoundedOnce) {
  const auto [a_transposed, b_transposed] = GetParam();
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const Shape& s : kShapes) {
      const at::Tensor a = random(s.m, s.k, a_transposed, type);
      const at::Tensor b = random(s.k, s.n, b_transposed, type);
      EXPECT_LT(relative_error(product(a, b), exact(a, b)), kRounded)
          << s.m << " " << s.n << " " << s.k << " " << type;
    }
  }
}

void expect_filled_and_added(const at::Tensor& a, const at::Tensor& b, bool out_transposed) {
  const at::Tensor whole = at::full({a.size(0) + 2, b.size(1) + 2}, 77.0, a.options());
  const at::Tensor frame = out_transposed ? whole.t().contiguous().t() : whole;
  const at::Tensor place = frame.narrow(0, 1, a.size(0)).narrow(1, 1, b.size(1));
  place.fill_(NAN);
  product_into(place, a, b, false);
  EXPECT_LT(relative_error(place, exact(a, b)), kRounded);
  const at::Tensor before = place.to(at::kDouble);
  product_into(place, a, b, true);
  EXPECT_LT(relative_error(place, before + exact(a, b)), kRounded);
  place.fill_(77.0);
  EXPECT_TRUE(frame.eq(77.0).all().item<bool>());
}

TEST_P(Products, FillOrAddToTheirPlaceAndNothingElse) {
  const auto [a_transposed, b_transposed] = GetParam();
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.m << " " << s.n << " " << s.k << " " << type);
      const at::Tensor a = random(s.m, s.k, a_transposed, type);
      const at::Tensor b = random(s.k, s.n, b_transposed, type);
      for (const bool out_transposed : {false, true}) expect_filled_and_added(a, b, out_transposed);
    }
  }
}

TEST_P(Products, HaveTheSameBitsForAnyNumberOfThreads) {
  const auto [a_transposed, b_transposed] = GetParam();
  const int before = at::get_num_threads();
  // With AMX the large one is oneDNN's, whose order of summation is its own affair, as everything is without
  // bf16.
  const bool all_own = kernels::bf16_products() != kernels::Bf16Products::kAmx;
  for (const Shape& s : {Shape{333, 129, 185}, Shape{50, 700, 6500}}) {
    const at::Tensor a = random(s.m, s.k, a_transposed);
    const at::Tensor b = random(s.k, s.n, b_transposed);
    at::set_num_threads(1);
    const at::Tensor one = product(a, b);
    at::set_num_threads(3);
    const at::Tensor three = product(a, b);
    if (kernels::product_kernel() != nullptr && (all_own || s.k < 1000)) {
      EXPECT_TRUE(at::equal(one, three)) << s.m;
    }
    EXPECT_LT(relative_error(three, one), kRounded);
  }
  at::set_num_threads(before);
}

TEST(Product, KeepsInfinitiesAndNansInTheirRowsAndColumns) {
  at::Tensor a = at::ones({20, 31}, at::kBFloat16);
  at::Tensor b = at::ones({31, 60}, at::kBFloat16);
  a[19][30] = std::numeric_limits<float>::infinity();
  b[30][59] = NAN;
  const at::Tensor c = product(a, b);
  EXPECT_EQ(c.isfinite().logical_not().sum().item<std::int64_t>(), 20 + 59);
  if (kernels::product_kernel() != nullptr) {  // oneDNN makes NaN of infinities where it emulates bf16
    EXPECT_EQ(c.isnan().sum().item<std::int64_t>(), 20);
    EXPECT_EQ(c.isinf().sum().item<std::int64_t>(), 59);
  }
  EXPECT_EQ(c.eq(31.0).sum().item<std::int64_t>(), 19 * 59);
}

TEST(Product, OfFloatsStaysInFloat) {
  const at::Tensor a = at::randn({33, 20});
  const at::Tensor b = at::randn({20, 17});
  EXPECT_EQ(product(a, b).scalar_type(), at::kFloat);
  EXPECT_LT(relative_error(product(a, b), exact(a, b)), 1e-6);
}

}  // namespace
}  // namespace echelon::ops
