#include "shard/fp8/fp8_slice.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model/ops/products/fp8_matrix.h"

namespace echelon {
namespace {

using ops::Fp8Matrix;
using ops::kFp8Values;

/// Two matrices in the slices of some ranks, and what the ranks agree on.
class Slices {
 public:
  Slices(int ranks, at::Tensor first, at::Tensor second)
      : matrices_{std::move(first), std::move(second)},
        a_("a", matrices_[0].sizes().vec(), {}),
        b_("b", matrices_[1].sizes().vec(), {}),
        layout_({&a_, &b_}, ranks) {
    at::Tensor flat = at::zeros({layout_.padded_numel()});
    flat.narrow(0, 0, layout_.numel()).copy_(at::cat({matrices_[0].flatten(), matrices_[1].flatten()}));
    at::Tensor scales = at::full({2, 2}, std::numeric_limits<float>::infinity());
    for (int rank = 0; rank < ranks; ++rank) {
      slices_.push_back(flat.narrow(0, rank * layout_.slice_numel(), layout_.slice_numel()));
      scales_.push_back(at::full({2, 2}, 7.0));
      Fp8Slice(layout_, rank, slices_.back(), scales_.back()).measure();
      scales = at::minimum(scales, scales_.back());
    }
    const at::Tensor agreed = scales.select(1, 0);
    for (const at::Tensor& own : scales_) own.copy_(at::stack({agreed, agreed.reciprocal()}, 1));
  }

  /// What all ranks gather of matrix `i`.
  Fp8Matrix gathered(std::size_t i) {
    at::Tensor whole = at::zeros({layout_.padded_numel()}, kFp8Values);
    for (std::size_t rank = 0; rank < slices_.size(); ++rank) {
      const Fp8Slice slice(layout_, static_cast<int>(rank), slices_[rank], scales_[rank]);
      slice.cast_to(
          whole.narrow(0, static_cast<std::int64_t>(rank) * layout_.slice_numel(), layout_.slice_numel()));
      EXPECT_TRUE(slice.scale(i).equal(scales_[0][static_cast<std::int64_t>(i)]));
    }
    return {whole.narrow(0, layout_.offset(i), matrices_[i].numel()).view(matrices_[i].sizes()),
            scales_[0][static_cast<std::int64_t>(i)].narrow(0, 1, 1)};
  }

  /// The matrix as one rank alone casts it.
  [[nodiscard]] Fp8Matrix whole(std::size_t i) const {
    const at::Tensor value = matrices_[i].to(at::kBFloat16);
    return ops::to_fp8(value, kFp8Values, ops::fp8_scale(value, kFp8Values), {.rows = true}).rows;
  }

 private:
  std::vector<at::Tensor> matrices_;
  Parameter a_;
  Parameter b_;
  FlatLayout layout_;
  std::vector<at::Tensor> slices_;
  std::vector<at::Tensor> scales_;
};

TEST(Fp8Slice, RanksGatherTheBitsOfWholeMatrices) {
  at::manual_seed(5);
  for (const double spread : {1e-20, 1e-3, 50.0}) {
    for (const int ranks : {1, 2, 3, 7, 40}) {  // with 40, some have padding alone
      Slices slices(ranks, at::randn({48, 32}) * spread, at::randn({16, 16}));
      for (const std::size_t i : {0U, 1U}) {
        const Fp8Matrix found = slices.gathered(i);
        const Fp8Matrix expected = slices.whole(i);
        EXPECT_TRUE(found.factor.equal(expected.factor)) << ranks;
        EXPECT_TRUE(found.elements.view(at::kByte).equal(expected.elements.view(at::kByte))) << ranks;
      }
    }
  }
}

TEST(Fp8Slice, ANanOrAnInfinityOfOneRankIsSeenInEveryProduct) {
  const at::Tensor x = at::ones({16, 16}, at::kBFloat16);
  const Fp8Matrix ones = ops::to_fp8(x, kFp8Values, ops::fp8_scale(x, kFp8Values), {.rows = true}).rows;
  for (const double wrong : {NAN, -NAN, INFINITY, -INFINITY}) {
    at::Tensor first = at::ones({16, 16});
    first[15][3] = wrong;
    Slices slices(3, first, at::ones({16, 16}));
    EXPECT_TRUE(ops::fp8_product(ones, slices.gathered(0), at::kFloat, true).isnan().all().item<bool>());
    EXPECT_TRUE(
        ops::fp8_product(ones, slices.gathered(1), at::kFloat, true).allclose(at::full({16, 16}, 16.0)));
  }
}

}  // namespace
}  // namespace echelon
