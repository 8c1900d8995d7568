#include "shard/memory/buffer_pool.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace echelon {
namespace {

constexpr Use kUse = Use::kGathered;

TEST(BufferPool, HandsAReturnedBufferOutAgain) {
  BufferPool pool(at::kCPU);
  at::DataPtr first = pool.take(1000, kUse);
  void* const address = first.get();
  pool.give(std::move(first), 1000, kUse);
  const at::DataPtr second = pool.take(800, kUse);
  EXPECT_EQ(second.get(), address);
  EXPECT_EQ(pool.bytes_allocated(), 1024);
}

TEST(BufferPool, RemembersASmallerLoansWholeSize) {
  BufferPool pool(at::kCPU);
  at::DataPtr buffer = pool.take(1000, kUse);
  void* const address = buffer.get();
  for (const std::int64_t bytes : {600, 1000, 501, 1000}) {  // lent as less, it still is a buffer of 1000
    pool.give(std::move(buffer), bytes, kUse);
    buffer = pool.take(bytes, kUse);
    EXPECT_EQ(buffer.get(), address) << bytes;
  }
  EXPECT_EQ(pool.bytes_allocated(), 1024);
}

TEST(BufferPool, DoesNotLendALargeBufferForASmallPurpose) {
  BufferPool pool(at::kCPU);
  pool.give(pool.take(1000, kUse), 1000, kUse);
  const at::DataPtr small = pool.take(400, kUse);
  EXPECT_EQ(pool.bytes_allocated(), 1424);
}

TEST(BufferPool, PicksTheSmallestThatFits) {
  BufferPool pool(at::kCPU);
  at::DataPtr large = pool.take(1900, kUse);
  at::DataPtr fitting = pool.take(1100, kUse);
  void* const address = fitting.get();
  pool.give(std::move(large), 1900, kUse);
  pool.give(std::move(fitting), 1100, kUse);
  EXPECT_EQ(pool.take(1000, kUse).get(), address);
}

TEST(BufferPool, TreatsSizesOfAlmostTheSameAsOne) {
  BufferPool pool(at::kCPU);
  for (const std::int64_t bytes : {1'000'000, 1'001'000, 999'000})
    pool.give(pool.take(bytes, kUse), bytes, kUse);
  EXPECT_LE(pool.bytes_allocated(), 1'000'000 * 17 / 16);
  EXPECT_GE(pool.bytes_allocated(), 1'001'000);
}

TEST(ElasticTensor, ViewsSurviveDeflateAndInflate) {
  BufferPool pool(at::kCPU);
  ElasticTensor tensor(pool, 24, at::kFloat, kUse);
  const at::Tensor first = tensor.view(0, {2, 3});
  const at::Tensor second = tensor.view(6, {18});
  tensor.inflate();
  const at::Tensor transposed = first.t();
  for (int round = 1; round <= 3; ++round) {
    tensor.deflate();
    EXPECT_FALSE(tensor.inflated());
    EXPECT_EQ(first.storage().nbytes(), 0U);
    EXPECT_EQ(second.sizes(), (std::vector<std::int64_t>{18}));
    tensor.inflate();
    auto* values = static_cast<float*>(tensor.data());
    for (int i = 0; i < 24; ++i) values[i] = static_cast<float>(100 * round + i);
    EXPECT_EQ(first[1][2].item<float>(), static_cast<float>(100 * round + 5));
    EXPECT_EQ(transposed[2][1].item<float>(), static_cast<float>(100 * round + 5));
    EXPECT_EQ(second[17].item<float>(), static_cast<float>(100 * round + 23));
  }
}

TEST(ElasticTensor, ViewsInTheAutogradGraphSeeTheBytesBroughtBack) {
  BufferPool pool(at::kCPU);
  ElasticTensor tensor(pool, 4, at::kFloat, kUse);
  const at::Tensor weight = tensor.view(0, {4}).requires_grad_(true);
  tensor.inflate();
  static_cast<void>(weight.detach().fill_(2.0));
  const at::Tensor x = at::ones({4}).requires_grad_(true);
  const at::Tensor loss = (x * weight).sum();
  tensor.deflate();  // after the forward
  tensor.inflate();
  for (int i = 0; i < 4; ++i) static_cast<float*>(tensor.data())[i] = 2.0F;
  loss.backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({4}, 2.0)));
  EXPECT_TRUE(at::equal(weight.grad(), at::ones({4})));
}

TEST(ElasticTensor, BytesGoFromOneTensorToTheNext) {
  BufferPool pool(at::kCPU);
  ElasticTensor first(pool, 100, at::kFloat, kUse);
  EXPECT_EQ(pool.bytes_allocated(), 0);
  first.inflate();
  first.deflate();
  ElasticTensor second(pool, 190, at::kBFloat16, kUse);
  second.inflate();
  EXPECT_EQ(pool.bytes_allocated(), 400);
  first.inflate();
  EXPECT_EQ(pool.bytes_allocated(), 800);
  first.inflate();
  second.deflate();
  second.deflate();
  second.inflate();
  EXPECT_EQ(pool.bytes_allocated(), 800);
}

TEST(ElasticTensor, ReturnsItsBytesAtTheEnd) {
  BufferPool pool(at::kCPU);
  for (int i = 0; i < 10; ++i) {
    ElasticTensor tensor(pool, 100, at::kFloat, kUse);
    EXPECT_FALSE(tensor.inflated());
    tensor.inflate();
    EXPECT_EQ(pool.bytes(kUse).live, 400);
  }
  EXPECT_EQ(pool.bytes_allocated(), 400);
  EXPECT_EQ(pool.bytes(kUse).live, 0);
  EXPECT_EQ(pool.bytes(kUse).peak, 400);
  EXPECT_EQ(pool.bytes(Use::kStaging).peak, 0);
}

TEST(ElasticTensor, OverATensorOfTheCallerNeverMoves) {
  const at::Tensor own = at::zeros({8});
  ElasticTensor tensor(own);
  const at::Tensor half = tensor.view(4, {2, 2});
  tensor.deflate();
  EXPECT_TRUE(tensor.inflated());
  own.fill_(3.0);
  EXPECT_EQ(half[1][1].item<float>(), 3.0F);
}

}  // namespace
}  // namespace echelon
