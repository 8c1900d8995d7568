#include "comm/reduce.h"

#include <cstring>

#include "base/half.h"
#include "comm/nccl/reduce_kernels.h"
#include "gpu/device.h"

// The kernels around NCCL beside the arithmetic of the CPU ranks: the same bits.
namespace echelon::test {
namespace {

class GpuReduce : public ::testing::Test {
 protected:
  void SetUp() override { ECHELON_NEEDS_GPU(); }
};

std::vector<float> some(std::size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(static_cast<int>((i * 7919 + seed * 104729) % 20011) - 10000) / 4096.0F;
  return values;
}

/// The bits of `values` in `type`, as bytes.
std::vector<std::byte> stored(const std::vector<float>& values, DType type) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = type == DType::kBF16 ? float_to_bf16(values[i]) : float_to_half(values[i]);
    std::memcpy(&bytes[i * size], type == DType::kF32 ? static_cast<const void*>(&values[i]) : &half, size);
  }
  return bytes;
}

struct SumCase {
  DType type;
  std::size_t count;
  std::size_t shift;  ///< elements past a border
  int ranks;
  int parts;
};

/// One of `ranks` sums its pieces: what the others sent lies in one buffer with holes where its own would be.
void check_sum(const SumCase& c, bool accumulate) {
  const int own_rank = c.ranks / 2;
  std::vector<std::byte> all;
  std::vector<std::vector<std::byte>> pieces;  // by part, then rank
  for (int piece = 0; piece < c.ranks * c.parts; ++piece) {
    pieces.push_back(stored(some(c.count, static_cast<unsigned>(piece) + 1), c.type));
    all.insert(all.end(), pieces.back().begin(), pieces.back().end());
  }
  std::vector<float> expected = some(c.count * static_cast<std::size_t>(c.parts), 99);
  const OnDevice<float> output(expected);
  for (int part = 0; part < c.parts; ++part) {
    std::vector<const void*> sources;
    for (int rank = 0; rank < c.ranks; ++rank)
      sources.push_back(pieces[static_cast<std::size_t>(part * c.ranks + rank)].data());
    sum_scaled(sources, c.type, expected.data() + static_cast<std::size_t>(part) * c.count, c.count, 0.3F,
               accumulate);
  }
  // Own pieces lie as far apart as those of all ranks to one part.
  const OnDevice<std::byte> input(all, c.shift * size_of(c.type));
  const OnDevice<std::byte> arrived(all, c.shift * size_of(c.type));
  const std::byte* own = input.data() + static_cast<std::size_t>(own_rank) * c.count * size_of(c.type);
  ASSERT_EQ(sum_pieces({own, arrived.data(), c.count, own_rank, c.ranks, c.parts}, c.type, output.data(),
                       0.3F, accumulate, nullptr),
            cudaSuccess);
  EXPECT_TRUE(same_bits(output.values(), expected));
}

TEST_F(GpuReduce, SumsOfPiecesHaveTheBitsOfTheCpuRanks) {
  for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{100001}}) {
      for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
        for (const int ranks : {1, 2, 5}) {
          for (const int parts : {1, 3}) {
            if (parts > 1 && count > 4096) continue;
            SCOPED_TRACE(testing::Message() << name_of(type) << " " << count << " + " << shift << ", "
                                            << ranks << " ranks, " << parts << " parts");
            check_sum({type, count, shift, ranks, parts}, false);
            check_sum({type, count, shift, ranks, parts}, true);
          }
        }
      }
    }
  }
}

TEST_F(GpuReduce, ScalingHasTheBitsOfTheCpuRanks) {
  for (const bool accumulate : {false, true}) {
    const std::vector<float> from = some(100001, 1);
    std::vector<float> expected = some(from.size(), 2);
    const OnDevice<float> in(from);
    const OnDevice<float> out(expected);
    const void* source = from.data();
    sum_scaled({&source, 1}, DType::kF32, expected.data(), from.size(), 0.3F, accumulate);
    ASSERT_EQ(scale_into(in.data(), out.data(), from.size(), 0.3F, accumulate, nullptr), cudaSuccess);
    EXPECT_TRUE(same_bits(out.values(), expected));
  }
}

TEST_F(GpuReduce, NothingAndOtherTypes) {
  EXPECT_EQ(sum_pieces({}, DType::kBF16, nullptr, 1.0F, false, nullptr), cudaSuccess);
  EXPECT_EQ(sum_pieces({}, DType::kF64, nullptr, 1.0F, false, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(scale_into(nullptr, nullptr, 0, 1.0F, false, nullptr), cudaSuccess);
}

}  // namespace
}  // namespace echelon::test
