#include "optim/muon/newton_schulz.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/str.h"

namespace echelon {
namespace {

/// The same iteration in fp64, without rounding.
at::Tensor exact(const at::Tensor& matrix, std::int64_t steps) {
  at::Tensor x = matrix.to(at::kDouble);
  x = x / at::linalg_vector_norm(x);
  for (std::int64_t step = 0; step < steps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    x = 3.4445 * x + at::mm(-4.7750 * gram + 2.0315 * at::mm(gram, gram), x);
  }
  return x;
}

TEST(NewtonSchulz, IsTheIterationUpToTheRoundingOfBf16) {
  at::manual_seed(3);
  for (const auto& [rows, columns] : {std::pair(5, 5), {7, 31}, {31, 7}, {1, 9}, {64, 48}}) {
    const at::Tensor matrix = at::randn({rows, columns}).to(at::kBFloat16);
    for (const std::int64_t steps : {1, 5}) {
      const at::Tensor found = newton_schulz(matrix, steps);
      EXPECT_EQ(found.scalar_type(), at::kBFloat16);
      const at::Tensor apart = found.to(at::kDouble) - exact(matrix, steps);
      const double root = std::sqrt(static_cast<double>(std::min(rows, columns)));
      EXPECT_LT(apart.norm().item<double>(), 0.03 * root) << str(rows, " x ", columns, ", ", steps, " steps");
    }
  }
}

TEST(NewtonSchulz, MakesSingularValuesNearlyOne) {
  at::manual_seed(4);
  const at::Tensor found = newton_schulz(at::randn({40, 60}).to(at::kBFloat16), 5);
  const at::Tensor values = at::linalg_svdvals(found.to(at::kDouble));
  EXPECT_GT(values.min().item<double>(), 0.5);
  EXPECT_LT(values.max().item<double>(), 1.3);
}

TEST(NewtonSchulz, OfNothingIsNothing) {
  EXPECT_EQ(newton_schulz(at::zeros({4, 6}, at::kBFloat16), 5).count_nonzero().item<int>(), 0);
}

}  // namespace
}  // namespace echelon
