// Indices beyond 32 bits, of which a test of ordinary size shows nothing: matrices of more than 2^32
// elements, of which only what the first and the last blocks touch takes memory.
#include <gtest/gtest.h>

#include <vector>

#include "comm/nccl/reduce_kernels.h"
#include "gpu/fibers/block.h"
#include "gpu/fibers/faults.h"
#include "gpu/fibers/findings.h"
#include "gpu/fibers/memory.h"
#include "model/cuda/gpu_kernels.h"

namespace echelon::fibers {
namespace {

constexpr std::int64_t kColumns = 4096;
constexpr std::int64_t kRows = (std::int64_t{1} << 20) + 2048;  // so that the last block comes to the end
constexpr std::int64_t kMany = kRows * kColumns;
constexpr DType kType = DType::kBF16;
constexpr std::int64_t kSize = 2;  ///< bytes of an element of it

class Vast : public ::testing::Test {
 protected:
  void SetUp() override {
    void* probe = Memory::only().reserve(kMany * kSize);
    if (probe == nullptr) GTEST_SKIP() << "needs 40 GiB of address space";
    Memory::only().unreserve(probe);
    set_schedule(1);
    run_ends(1);
  }
  void TearDown() override {
    run_ends(0);
    for (void* matrix : matrices_) Memory::only().unreserve(matrix);
  }

  /// Zeros that the kernel is to touch up to their end.
  template <class T = void>
  T* at(std::int64_t bytes) {
    void* matrix = Memory::only().reserve(static_cast<std::size_t>(bytes));
    if (matrix != nullptr) matrices_.push_back(matrix);
    return static_cast<T*>(matrix);
  }
  [[nodiscard]] static std::size_t untouched(void* matrix) {
    const Piece& piece = *Memory::only().find(matrix, 1);
    return piece.end() - piece.touched_end();
  }
  /// The kernel of this launch has touched the end of every matrix since the last call, and nothing else.
  void expect_whole(cudaError_t launched) {
    EXPECT_EQ(launched, cudaSuccess);
    for (const std::string& found : take_findings()) ADD_FAILURE() << found;
    int number = 0;
    for (void* matrix : matrices_) {
      EXPECT_EQ(untouched(matrix), 0U) << "bytes of matrix " << number++;
      Memory::only().unreserve(matrix);
    }
    matrices_.clear();
  }

  std::vector<void*> matrices_;
};

TEST_F(Vast, AnIndexOf32BitsIsFound) {
  float* to = at<float>(kMany * 4);
  EXPECT_EQ(run_narrow(to, kMany), cudaSuccess);
  EXPECT_GT(untouched(to), 0U);
}

TEST_F(Vast, RowsAreFound) {
  const auto matrix = [&] { return at(kMany * kSize); };
  const auto of_rows = [&] { return at<float>(kRows * 4); };
  expect_whole(gpu::rms_norm(kType, matrix(), matrix(), matrix(), at(kColumns * kSize), matrix(), of_rows(),
                             kRows, kColumns, 1e-5F, NormRounding::kTwice, nullptr));
  const std::int64_t partials = gpu::rms_norm_partials(kRows);
  expect_whole(gpu::rms_norm_backward(kType, matrix(), matrix(), matrix(), at(kColumns * kSize), of_rows(),
                                      matrix(), at<float>(kColumns * 4), at<float>(partials * kColumns * 4),
                                      kRows, kColumns, NormRounding::kTwice, nullptr));
  expect_whole(gpu::swiglu(kType, at(2 * kMany * kSize), matrix(), kRows, kColumns, nullptr));
  expect_whole(gpu::swiglu_backward(kType, at(2 * kMany * kSize), matrix(), at(2 * kMany * kSize), kRows,
                                    kColumns, nullptr));
  expect_whole(gpu::cross_entropy(kType, matrix(), at<std::int64_t>(kRows * 8), of_rows(), kRows, kColumns,
                                  nullptr, nullptr));
  const float scale = 1.0F;
  expect_whole(gpu::cross_entropy(kType, matrix(), at<std::int64_t>(kRows * 8), of_rows(), kRows, kColumns,
                                  &scale, nullptr));
  expect_whole(gpu::dropout(kType, matrix(), matrix(), kRows, kColumns,
                            {1, 1000, 1.0F, at<std::int64_t>(kRows * 8), at<std::int64_t>(kRows * 8)},
                            nullptr));
}

TEST_F(Vast, HeadsAreFound) {
  const kernels::QkvShape shape{kRows / 16, 16, 8, 128};
  const auto heads = [&](std::int64_t count) {
    const std::int64_t token = count * shape.head_dim;
    return gpu::Heads{at(kRows * token * kSize), shape.seq_len * token, shape.head_dim, token};
  };
  const auto rows = [&] { return at(kRows * (16 + 2 * 8) * shape.head_dim * kSize); };
  const auto angles = [&] { return at<float>(shape.seq_len * shape.head_dim * 4); };
  expect_whole(gpu::rope_split(kType, rows(), heads(16), heads(8), heads(8), angles(), shape.head_dim, kRows,
                               shape, nullptr));
  expect_whole(gpu::rope_merge(kType, rows(), heads(16), heads(8), heads(8), angles(), shape.head_dim, kRows,
                               shape, nullptr));
}

TEST_F(Vast, VectorsAreFound) {
  const auto numbers = [&] { return at<float>(kMany * 4); };
  expect_whole(
      gpu::sum_of_squares(numbers(), kMany, at<double>(8 * gpu::kSquaresPartials), at<double>(8), nullptr));
  const kernels::AdamWValues step{1, 1e-3, 0.9, 0.95, 1e-8, 0.1, 0.5};
  expect_whole(gpu::adamw(step, numbers(), numbers(), numbers(), numbers(), kMany, nullptr));
  expect_whole(gpu::cast(numbers(), kType, at(kMany * kSize), kMany, nullptr));
  expect_whole(scale_into(numbers(), numbers(), static_cast<std::size_t>(kMany), 0.5F, true, nullptr));
  const Pieces pieces{.own = at(kMany * kSize),
                      .arrived = at(2 * kMany * kSize),
                      .count = static_cast<std::size_t>(kMany),
                      .rank = 0,
                      .size = 2};
  expect_whole(sum_pieces(pieces, kType, numbers(), 0.5F, false, nullptr));
}

TEST_F(Vast, MatricesOfEightBitsAreFound) {
  const auto words = [&] { return at<std::uint32_t>(gpu::kFp8Partials * 4); };
  expect_whole(gpu::fp8_scale(at(kMany * kSize), kMany, gpu::Fp8::kE4m3, words(), at<float>(8), nullptr));
  expect_whole(gpu::fp8_cast(at(kMany * kSize), at<float>(4), gpu::Fp8::kE4m3, at(kMany), at(kMany), kRows,
                             kColumns, nullptr));
  expect_whole(gpu::fp8_transpose(at(kMany), at(kMany), kRows, kColumns, nullptr));
}

}  // namespace
}  // namespace echelon::fibers
