#include "gpu/fibers/faults.h"

#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "gpu/device.h"
#include "gpu/fibers/block.h"
#include "gpu/fibers/findings.h"
#include "support/matches.h"

// What the books would miss, the tests of the real kernels could not find.
namespace echelon::fibers {
namespace {

constexpr int kElements = 128;

/// Everything that was found, one text.
std::string findings_of(Fault fault) {
  std::vector<float> values(kElements);
  std::iota(values.begin(), values.end(), 0.0F);
  const test::OnDevice<float> from(values);
  const test::OnDevice<float> to(values);
  void* unwritten = nullptr;
  EXPECT_EQ(cudaMalloc(&unwritten, kElements * sizeof(float)), cudaSuccess);
  const float* source = fault == Fault::kUnwritten    ? static_cast<const float*>(unwritten)
                        : fault == Fault::kHostMemory ? values.data()
                                                      : from.data();
  EXPECT_EQ(run_faulty(fault, source, to.data(), kElements), cudaSuccess);
  cudaFree(unwritten);
  std::string all;
  for (const std::string& text : take_findings()) all += text + "\n";
  return all;
}

struct Case {
  Fault fault;
  const char* found;  ///< part of a finding
  friend void PrintTo(const Case& which, std::ostream* to) { *to << which.found; }
};

class Faults : public ::testing::TestWithParam<Case> {};

TEST_P(Faults, IsFoundWhateverTheOrderOfThreads) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    set_schedule(seed);
    const std::string all = findings_of(GetParam().fault);
    EXPECT_MENTIONS(all, GetParam().found) << "seed " << seed << ", found:\n" << all;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Seeded, Faults,
    ::testing::Values(
        Case{Fault::kRaceInABlock, "nothing orders the two"},
        Case{Fault::kBarrierAfter, "nothing orders the two"},
        Case{Fault::kRaceOfBlocks, "nothing orders the two"},
        Case{Fault::kReadThenWritten, "nothing orders the two"},
        Case{Fault::kPastTheEnd, "past the end of an allocation (bytes 512 to 516 of 512)"},
        Case{Fault::kPastTheEndShared, "writes shared memory past the end of 256 bytes"},
        Case{Fault::kBeforeTheBegin, "reads memory 4 bytes in front of an allocation"},
        Case{Fault::kUnwritten, "reads what nobody has written"},
        Case{Fault::kUnwrittenShared, "thread 4 of block 0 reads in shared memory what nobody has written"},
        Case{Fault::kLastBlock, "of block 1 reads in shared memory what nobody has written"},
        Case{Fault::kOwnBarrier, "wait for each other at different places"},
        Case{Fault::kOwnExchange, "wait for each other at different places"},
        Case{Fault::kDynamicTooShort, "shared memory past the end of 508 bytes"},
        Case{Fault::kHostMemory, "reads memory that is not the device's"},
        Case{Fault::kUnaligned, "reads 8 bytes at an address that is no multiple of 8"},
        Case{Fault::kTooMuchShared, "the last of 49156 bytes of shared memory; a block has 49152"}));

TEST(NoFaults, NothingIsFound) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    set_schedule(seed);
    EXPECT_EQ(findings_of(Fault::kNone), "");
  }
}

TEST(NoFaults, ALaunchThatNoDeviceTakesIsRefused) {
  const auto nothing = [](int) {};
  const auto launched = [&](const gpu::Grid& grid) {
    gpu::launch(+nothing, grid, 1);
    return cudaGetLastError();
  };
  EXPECT_EQ(launched({1, 1025}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched({dim3(1, 65536), 1}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched({1, 32, nullptr, 49153}), cudaErrorInvalidConfiguration);
  const auto allow = [&](int bytes) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(+nothing),
                                cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  };
  EXPECT_EQ(allow(232449), cudaErrorInvalidValue);
  EXPECT_EQ(allow(49154), cudaSuccess);
  EXPECT_EQ(launched({1, 32, nullptr, 49154}), cudaSuccess);
  EXPECT_EQ(launched({1, 32, nullptr, 49155}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launched({1, 32}), cudaSuccess);
}

}  // namespace
}  // namespace echelon::fibers
