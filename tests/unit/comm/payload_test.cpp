#include "comm/payload.h"

#include <gtest/gtest.h>

#include <vector>

namespace echelon {
namespace {

TEST(PartBegin, DividesUpwards) {
  struct Case {
    std::uint64_t count;
    int size;
    std::vector<std::uint64_t> begins;  ///< of every rank, and the end
  };
  const std::vector<Case> cases{
      {12, 4, {0, 3, 6, 9, 12}}, {10, 4, {0, 3, 6, 9, 10}}, {9, 4, {0, 3, 6, 9, 9}}, {5, 4, {0, 2, 4, 5, 5}},
      {2, 4, {0, 1, 2, 2, 2}},   {0, 3, {0, 0, 0, 0}},      {7, 1, {0, 7}}};
  for (const Case& c : cases) {
    std::vector<std::uint64_t> begins;
    for (int rank = 0; rank <= c.size; ++rank) begins.push_back(part_begin(c.count, rank, c.size));
    EXPECT_EQ(begins, c.begins) << c.count << " over " << c.size;
  }
}

TEST(PayloadBytes, OfCollectivesThatSendAPartToEachOther) {
  using Kind = OperationKind;
  // Every rank sends what it keeps, or what another sums, to 3 others.
  EXPECT_EQ(payload_bytes(Kind::kAllGather, 1000, DType::kBF16, 2, 4), 3U * 2000);
  EXPECT_EQ(payload_bytes(Kind::kReduceScatter, 1000, DType::kF32, 0, 4), 3U * 4000);
  EXPECT_EQ(payload_bytes(Kind::kGatherBlobs, 1000, DType::kU8, 0, 4), 0U);
  EXPECT_EQ(payload_bytes(Kind::kBarrier, 0, DType::kU8, 0, 4), 0U);
  // More than 32 bits.
  EXPECT_EQ(payload_bytes(Kind::kAllGather, 3'000'000'000, DType::kF64, 1, 3), 48'000'000'000U);
}

TEST(PayloadBytes, AloneIsNothing) {
  for (int kind = 1; kind <= 5; ++kind) {
    for (const std::uint64_t count : {1, 100'000})
      EXPECT_EQ(payload_bytes(static_cast<OperationKind>(kind), count, DType::kF32, 0, 1), 0U) << kind;
  }
}

TEST(PayloadBytes, OfSmallAllReducesAreTheWholeVectorToEachOther) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(payload_bytes(OperationKind::kAllReduce, 8, DType::kF64, rank, 3), 2U * 64);
    EXPECT_EQ(payload_bytes(OperationKind::kAllReduce, 8192, DType::kF32, rank, 3), 2U * 32'768);
  }
}

TEST(PayloadBytes, OfLargeAllReducesAreThePartsOfOthersAndTheOwnSumToEachOther) {
  const auto of = [](std::uint64_t count, DType type, int rank, int size) {
    return payload_bytes(OperationKind::kAllReduce, count, type, rank, size);
  };
  // One element more than small: three parts of 2731. 2 of others, and the own one twice.
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(of(8193, DType::kF32, rank, 3), 4U * (2 * 2731 + 2 * 2731));
  // Parts of 3334, 3334 and 3332.
  EXPECT_EQ(of(10'000, DType::kF32, 0, 3), 4U * (3334 + 3332 + 2 * 3334));
  EXPECT_EQ(of(10'000, DType::kF32, 1, 3), 4U * (3334 + 3332 + 2 * 3334));
  EXPECT_EQ(of(10'000, DType::kF32, 2, 3), 4U * (3334 + 3334 + 2 * 3332));
  // 32 KiB are small in any type.
  EXPECT_EQ(of(4097, DType::kF64, 1, 2), 8U * (2049 + 2048));
  EXPECT_EQ(of(4096, DType::kF64, 1, 2), 8U * 4096);
  // 9000 over 4000 ranks: parts of 3 for 3000 ranks, and nothing for the rest, which only sends.
  EXPECT_EQ(of(9000, DType::kF32, 0, 4000), 4U * (8997 + 3999 * 3));
  EXPECT_EQ(of(9000, DType::kF32, 2999, 4000), 4U * (8997 + 3999 * 3));
  EXPECT_EQ(of(9000, DType::kF32, 3000, 4000), 4U * 9000);
}

TEST(PayloadBytes, OfAllRanksAreTwiceTheVectorForEachOther) {
  // Every element travels from all but one rank to the one that sums it, and from there to all but that one.
  for (const int size : {2, 3, 7, 16}) {
    for (const std::uint64_t count : {8193, 100'000, 123'457}) {
      std::uint64_t all = 0;
      for (int rank = 0; rank < size; ++rank)
        all += payload_bytes(OperationKind::kAllReduce, count, DType::kF32, rank, size);
      EXPECT_EQ(all, 2 * static_cast<std::uint64_t>(size - 1) * count * 4) << count << " over " << size;
    }
  }
}

TEST(GpuPayload, OfTwoByteGradientsIsWhatTheGridExchanges) {
  const NodeGrid grid{4, 8};
  EXPECT_EQ(gpu_payload_bytes(OperationKind::kReduceScatter, 100, DType::kBF16, 5, grid),
            grid.bytes_within(100) + grid.bytes_between(100));
  EXPECT_EQ(gpu_payload_bytes(OperationKind::kReduceScatter, 100, DType::kF16, 0, {1, 8}), 7U * 200);
  EXPECT_EQ(gpu_payload_bytes(OperationKind::kReduceScatter, 100, DType::kF32, 0, grid), 31U * 400);
  EXPECT_EQ(gpu_payload_bytes(OperationKind::kAllGather, 100, DType::kBF16, 0, grid), 31U * 200);
}

}  // namespace
}  // namespace echelon
