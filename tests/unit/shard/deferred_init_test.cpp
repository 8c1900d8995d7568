#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "shard/sharded_model.h"
#include "unit/shard/alone.h"

namespace echelon {
namespace {

/// Writable memory of this process: what RLIMIT_DATA counts.
std::uint64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::strtoull(line.c_str() + 7, nullptr, 10) * 1024;
  }
  return 0;
}

/// Builds one rank's part of a model under a limit on the process's memory; exits with 0 when it could.
[[noreturn]] void build_within(std::uint64_t bytes, int ranks) {
  const ModelOptions options{.vocab_size = 8000,
                             .hidden_size = 1024,
                             .intermediate_size = 4096,
                             .layers = 24,
                             .heads = 8,
                             .kv_heads = 8,
                             .max_positions = 32};
  const struct rlimit limit { data_bytes() + bytes, data_bytes() + bytes };
  setrlimit(RLIMIT_DATA, &limit);
  try {
    test::AloneOf comm(ranks - 1, ranks);
    const ShardedModel model(build_model(options, at::kFloat, at::kCPU), comm, {}, 1, at::kCPU);
    const std::int64_t whole = 4 * model.model().numel();
    if (whole < 10 * static_cast<std::int64_t>(bytes)) {
      std::cerr << "the model is not ten times the limit\n";
      std::_Exit(3);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    std::_Exit(2);
  }
  std::_Exit(0);
}

TEST(DeferredInitialization, AModelTenTimesLargerThanARanksMemoryIsBuilt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // 419 M parameters, 1.7 GB of weights; a rank of 64 keeps 52 MB of weights and gradients. One unit: 67 MB.
  EXPECT_EXIT(build_within(std::uint64_t{150} << 20, 64), ::testing::ExitedWithCode(0), "");
}

TEST(DeferredInitialization, TheLimitIsReal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(build_within(std::uint64_t{40} << 20, 64), ::testing::ExitedWithCode(2), "");
}

}  // namespace
}  // namespace echelon
