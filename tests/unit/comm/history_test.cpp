#include "comm/history.h"

#include <gtest/gtest.h>

#include "comm/communicator.h"
#include "comm/local_communicator.h"
#include "support/matches.h"

namespace echelon {
namespace {

Operation numbered(std::uint64_t sequence, std::string_view label) {
  Operation operation = make_operation(OperationKind::kAllGather, 8, DType::kBF16, label);
  operation.sequence = sequence;
  return operation;
}

TEST(History, KeepsTheLastOperationsAndTellsWhichAreNotDone) {
  History history;
  for (std::uint64_t n = 0; n < 100; ++n) {
    history.issued(numbered(n, "layers." + std::to_string(n)));
    if (n != 99) history.done(n);
  }
  history.done(3);  // overtaken: no effect
  const auto lines = history.recent();
  ASSERT_EQ(lines.size(), History::kLength);
  EXPECT_TRUE(lines.front().starts_with("#36 all-gather 'layers.36' 8 x bf16, issued ")) << lines.front();
  EXPECT_MENTIONS(lines[62], ", done ");
  EXPECT_MENTIONS(lines.back(), "#99 ", "not done");
}

TEST(History, IsEmptyAtFirst) {
  EXPECT_TRUE(History().recent().empty());
}

TEST(Operation, DiffersByAnythingThatRanksMustAgreeAbout) {
  const Operation base = make_operation(OperationKind::kAllReduce, 10, DType::kF32, "x");
  EXPECT_TRUE(matches(base, base));
  const auto differs = [&](auto change) {
    Operation other = base;
    change(other);
    return !matches(base, other);
  };
  EXPECT_TRUE(differs([](Operation& o) { o.sequence = 1; }));
  EXPECT_TRUE(differs([](Operation& o) { o.kind = OperationKind::kBarrier; }));
  EXPECT_TRUE(differs([](Operation& o) { o.type = DType::kF64; }));
  EXPECT_TRUE(differs([](Operation& o) { o.op = ReduceOp::kMax; }));
  EXPECT_FALSE(differs([](Operation& o) { o.blob_bytes = 1; }));
}

TEST(Operation, LongLabelsAreToldApartByTheirEnd) {
  const std::string start(200, 'a');
  EXPECT_FALSE(matches(make_operation(OperationKind::kBarrier, 0, DType::kU8, start + "1"),
                       make_operation(OperationKind::kBarrier, 0, DType::kU8, start + "2")));
}

TEST(LocalCommunicator, ScalesAndAccumulatesLikeALargerGroup) {
  LocalCommunicator alone;
  std::vector<float> input{1, 2, 3};
  std::vector<float> output{10, 10, 10};
  alone.reduce_scatter(input.data(), DType::kF32, output.data(), 3, 0.5F, true, "x").wait();
  EXPECT_EQ(output, (std::vector<float>{10.5F, 11, 11.5F}));
  EXPECT_EQ(alone.recent().size(), 1U);
}

}  // namespace
}  // namespace echelon
