// comm/nccl on a stand-in for CUDA and NCCL: what a GPU would need a cluster and luck to show.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/str.h"
#include "comm/agree.h"
#include "gpu/runtime/ranks.h"
#include "support/matches.h"
#include "support/suspend.h"

namespace echelon::test {
namespace {

using stand_in::MachineOptions;

constexpr double kTimeout = 20;
constexpr double kPatience = 60;

/// Calls body(0), ... body(count - 1), four at a time: they mostly wait. Returns what they return, joined.
std::string each(std::size_t count, const std::function<std::string(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::string texts;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < count; at = next++) {
        const std::string text = body(at);
        const std::lock_guard lock(mutex);
        texts += text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return texts;
}

/// Ranks, and ranks of a node.
class Schedules : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Schedules, StepsComeOutRightAndInOrder) {
  const char* wish = std::getenv("ECHELON_TEST_SCHEDULES");
  EXPECT_EQ(each(wish == nullptr ? 15 : std::stoul(wish),
                 [](std::size_t seed) {
                   const auto [ranks, per_node] = GetParam();
                   const Outcome outcome =
                       run_ranks({.seed = seed, .ranks = ranks, .ranks_per_node = per_node}, kTimeout,
                                 kPatience, train_in_small);
                   return outcome.clean() ? "" : str("seed ", seed, ":\n", outcome.text());
                 }),
            "");
}
// Three nodes of three ranks sum two-byte gradients within nodes first.
INSTANTIATE_TEST_SUITE_P(Ranks, Schedules,
                         ::testing::Values(std::pair(1, 1), std::pair(2, 2), std::pair(3, 1), std::pair(4, 2),
                                           std::pair(8, 8), std::pair(9, 3)));

/// The others sit in a barrier when rank 1 breaks: only a thread beside them can learn of it.
void wait_for_a_rank_that_breaks(Rank& rank) {
  const auto world = rank.communicator();
  world->barrier("start");
  if (rank.job.info().rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rank.machine.break_here();
  }
  world->barrier("end");
}

/// Whether any of a few schedules shows what is wrong with these options: in a run, or when a rank hangs or
/// breaks.
bool noticed(MachineOptions options) {
  for (options.seed = 1; options.seed <= 4; ++options.seed)
    if (!run_ranks(options, 0.5, 5, train_in_small).clean()) return true;
  options.fated_rank = 1;
  options.fate = stand_in::Fate::kBreaks;
  if (!run_ranks(options, 5, 1, wait_for_a_rank_that_breaks).others_back(1)) return true;
  options.fated_call = 450;
  options.fate = stand_in::Fate::kHangs;
  return !run_ranks(options, 0.2, 1.5, train_in_small).others_back(1);
}

// Rank 1 works before it joins a gather, rank 0 has nothing else to do.
TEST(Waiting, OfAStreamForALateRankIsMeasured) {
  constexpr int kOperations = 200;  // a millisecond each
  constexpr double kWork_s = kOperations * 1e-3;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    double waited_s[2] = {};
    std::atomic<bool> waits = false;
    std::atomic<bool> stands = false;
    const Outcome outcome = run_ranks({.seed = seed, .ranks = 2}, kTimeout, kPatience, [&](Rank& rank) {
      const auto world = rank.communicator();
      const auto own = static_cast<std::size_t>(world->rank());
      auto* data = static_cast<float*>(rank.machine.device_memory(2 * sizeof(float)));
      world->all_gather(data, 1, DType::kF32, "the first, which connects").wait();
      if (own == 1) {
        // Rank 0's stream stands at its wait, behind which only the event of its end lies. While rank 0 still
        // issues, the stream of its gather may look so, too.
        while (!waits || rank.machine.standstill().find("rank 0: cudaStreamWaitEvent and 1 behind it") ==
                             std::string::npos)
          std::this_thread::yield();
        stands = true;
        for (int n = 0; n < kOperations; ++n) rank.machine.launch(rank.compute, "work", {}, {}, [] {});
      }
      rank.machine.launch(rank.compute, "weights", {}, {{data + own, sizeof(float)}}, [=] { data[own] = 1; });
      Pending gathered = world->all_gather(data, 1, DType::kF32, "weights");
      const double before_s = world->stream_wait_s();
      gathered.wait();
      if (own == 0) waits = true;
      while (!stands) std::this_thread::yield();
      (void)rank.values<float>(data, 2);
      waited_s[own] = world->stream_wait_s() - before_s;
    });
    EXPECT_TRUE(outcome.clean()) << outcome.text();
    EXPECT_GT(waited_s[0], 0.99 * kWork_s);
    EXPECT_LT(waited_s[1], kWork_s / 4);
  }
}

// After an abort a stream passes what it had queued, so that values arrive which nobody has computed.
TEST(Failure, IsAskedForOnceTheHostHasWaited) {
  const Outcome outcome = run_ranks({.seed = 1, .ranks = 2}, kTimeout, kPatience, [](Rank& rank) {
    const auto world = rank.communicator();
    auto* data = static_cast<double*>(rank.machine.device_memory(sizeof(double)));
    world->all_reduce(data, 1, DType::kF64, ReduceOp::kSum, "norm").wait();
    world->check_failure();
    rank.watch.failure->set("a link is down");
    EXPECT_THROW(world->check_failure(), Error);
  });
  EXPECT_TRUE(outcome.faults.empty()) << outcome.text();
}

// Times are also read while an error is on its way, and a second one would end the process.
TEST(Failure, OfTheDeviceIsNoErrorOfItsTimes) {
  const Outcome outcome = run_ranks({.seed = 1, .ranks = 1}, kTimeout, kPatience, [](Rank& rank) {
    const auto world = rank.communicator();
    auto* data = static_cast<float*>(rank.machine.device_memory(sizeof(float)));
    world->all_gather(data, 1, DType::kF32, "weights").wait();
    rank.machine.lose_device();
    EXPECT_GE(world->stream_gather_wait_s(), 0);
    EXPECT_THROW(world->all_gather(data, 1, DType::kF32, "weights").wait(), Error);
  });
  EXPECT_TRUE(outcome.faults.empty()) << outcome.text();
}

// Its error must be reported, and the job ended, before anything waits for ranks that wait for this one.
TEST(Failure, OfOneRankAloneIsOutBeforeTheOthersDeadline) {
  constexpr double kDeadline = 2;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Outcome outcome =
        run_ranks({.seed = seed, .ranks = 4, .ranks_per_node = 2}, kDeadline, kPatience, [](Rank& rank) {
          const auto world = rank.communicator();
          const auto half = world->split([](int other) { return other / 2; });
          const auto alone = half->split([](int other) { return other; });
          world->barrier("start");
          half->barrier("start");
          if (world->rank() == 1) throw Error(Code::kTraining, "out of memory");
          world->barrier("end");
        });
    EXPECT_EQ(outcome.errors[1], "out of memory");
    EXPECT_LT(outcome.seconds_of[1], kDeadline / 2);
    EXPECT_TRUE(outcome.faults.empty() && outcome.standstill.empty()) << outcome.text();
  }
}

// PyTorch's pool may wait for the device before it takes memory from the driver.
TEST(Failure, EndsAnAllocationThatWaitsForTheDevice) {
  constexpr double kAllocation_s = 5;
  const Outcome outcome = run_ranks({.seed = 1, .ranks = 2}, 0.5, kPatience, [](Rank& rank) {
    const int own = rank.job.info().rank;
    CudaMemory memory = driver_memory();
    memory.take = [&rank, own, take = memory.take](std::size_t bytes, cudaStream_t stream) {
      const auto idle = [&] {
        const auto held = rank.machine.lock();
        return rank.machine.idle(own);
      };
      for (int ms = 0; ms < 1000 * kAllocation_s && !idle(); ++ms)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return take(bytes, stream);
    };
    const auto world = rank.communicator(std::move(memory));
    constexpr std::size_t kCount = 1000;
    void* data = rank.machine.device_memory(2 * kCount * sizeof(float));
    world->barrier("start");
    if (own == 1) throw Error(Code::kTraining, "out of memory");
    (void)world->all_reduce(data, kCount, DType::kF32, ReduceOp::kSum, "norm");
    (void)world->reduce_scatter(data, DType::kBF16, static_cast<float*>(data), kCount, 1, false, "gradients");
  });
  EXPECT_MENTIONS(outcome.errors[0], "'norm'", "did not end within 0.5 s");
  EXPECT_LT(outcome.seconds_of[0], kAllocation_s / 2);
}

TEST(Deadlines, DoNotCountTheTimeInWhichTheJobWasSuspended) {
  const Outcome outcome = run_ranks({.seed = 1, .ranks = 2}, 1.5, kPatience, [](Rank& rank) {
    const auto world = rank.communicator();
    void* norm = rank.machine.device_memory(sizeof(double));
    const auto reduce = [&] {
      world->all_reduce(norm, 1, DType::kF64, ReduceOp::kSum, "norm").wait();
      (void)rank.values<double>(norm, 1);
    };
    reduce();
    if (world->rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // rank 0 waits for this one by then
      test::suspend(3);
      for (int nap = 0; nap < 10; ++nap) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    reduce();
  });
  EXPECT_TRUE(outcome.clean()) << outcome.text();
}

// NCCL connects the ranks of each lane on the host, in the lane's first collective.
TEST(FirstCollectives, InAnotherOrderOnOneRankEndAtTheDeadline) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Outcome outcome = run_ranks({.seed = seed, .ranks = 2}, 0.3, 5, [](Rank& rank) {
      const auto world = rank.communicator();
      void* weights = rank.machine.device_memory(2 * sizeof(float));
      void* norm = rank.machine.device_memory(sizeof(double));
      const auto gather = [&] { (void)world->all_gather(weights, 1, DType::kF32, "weights"); };
      const bool gathers_first = world->rank() == 0;
      if (gathers_first) gather();
      (void)world->all_reduce(norm, 1, DType::kF64, ReduceOp::kSum, "norm");
      if (!gathers_first) gather();
    });
    EXPECT_MENTIONS(outcome.errors[0] + outcome.errors[1], "took more than 0.3 s: a rank did not reach it");
    EXPECT_TRUE(outcome.standstill.empty()) << outcome.text();
  }
}

/// Rank 0 has nothing to do before the gather, rank 1 has both collectives ready at once.
void gather_and_reduce(Rank& rank) {
  const auto world = rank.communicator();
  void* weights = rank.machine.device_memory(2 * sizeof(float));
  void* norm = rank.machine.device_memory(sizeof(double));
  for (const bool connects : {true, false}) {
    for (int n = 0; !connects && world->rank() == 1 && n < 300; ++n)
      rank.machine.launch(rank.compute, "work", {}, {}, [] {});
    Pending gathered = world->all_gather(weights, 1, DType::kF32, "weights");
    Pending reduced = world->all_reduce(norm, 1, DType::kF64, ReduceOp::kSum, "norm");
    gathered.wait();
    reduced.wait();
    (void)rank.values<double>(norm, 1);
  }
}

// With a place for one, two ranks that each run a collective of another lane wait for each other.
TEST(Places, AGatherAndAReductionNeedOneEach) {
  bool stuck = false;
  for (std::uint64_t seed = 1; seed <= 100 && !stuck; ++seed) {
    EXPECT_TRUE(run_ranks({.seed = seed, .ranks = 2}, kTimeout, kPatience, gather_and_reduce).clean());
    stuck = !run_ranks({.seed = seed, .ranks = 2, .places = 1}, 0.3, 5, gather_and_reduce).clean();
  }
  EXPECT_TRUE(stuck);
}

// As leaving out any flush does in the checkpoints' crash sweep.
TEST(LeftOut, EveryEventWaitAndLookIsMissed) {
  const Outcome whole = run_ranks({.seed = 3, .ranks = 4}, kTimeout, kPatience, train_in_small);
  ASSERT_TRUE(whole.clean()) << whole.text();
  ASSERT_GE(whole.sites.size(), 8U);
  const std::vector<stand_in::Site> sites(whole.sites.begin(), whole.sites.end());
  EXPECT_EQ(each(sites.size(),
                 [&](std::size_t at) {
                   return noticed({.ranks = 4, .without = &sites[at]}) ? ""
                                                                       : stand_in::describe(sites[at]) + "\n";
                 }),
            "");
}

// Exchanged gradients: what NCCL was given to send. Of a gather NCCL does not say; three ranks send two
// parts.
TEST(SentBytes, AreThoseThatNcclIsGiven) {
  constexpr std::size_t kCount = 37;
  for (const auto& [ranks, per_node] : {std::pair(4, 4), std::pair(9, 3), std::pair(4, 2)}) {
    const Outcome outcome = run_ranks(
        {.seed = 1, .ranks = ranks, .ranks_per_node = per_node}, kTimeout, kPatience, [&](Rank& rank) {
          const auto world = rank.communicator();
          const auto all = kCount * static_cast<std::size_t>(world->size());
          void* data = rank.machine.device_memory(all * sizeof(float));
          auto* sum = static_cast<float*>(rank.machine.device_memory(kCount * sizeof(float)));
          EXPECT_EQ(world->sent_bytes(), 0U);
          world->reduce_scatter(data, DType::kBF16, sum, kCount, 1, false, "gradients").wait();
          EXPECT_EQ(world->sent_bytes(), rank.machine.sent(world->rank()));
          EXPECT_GT(world->sent_bytes(), 0U);
          const std::uint64_t before = world->sent_bytes();
          const auto part = world->split([](int other) { return other % 2; });
          part->all_gather(data, kCount, DType::kF32, "weights").wait();
          EXPECT_EQ(world->sent_bytes() - before,
                    static_cast<std::size_t>(part->size() - 1) * kCount * sizeof(float));
        });
    EXPECT_TRUE(outcome.clean()) << outcome.text();
  }
}

/// Two all-reduces of one shape; rank 1 takes them in another order with `crossed`. NCCL notices nothing.
Outcome reduce_twice(std::uint64_t seed, bool crossed) {
  return run_ranks({.seed = seed, .ranks = 3}, kTimeout, kPatience, [crossed](Rank& rank) {
    const auto world = rank.communicator();
    auto* data = static_cast<double*>(rank.machine.device_memory(2 * sizeof(double)));
    rank.machine.launch(rank.compute, "values", {}, {{data, 2 * sizeof(double)}},
                        [data] { data[0] = data[1] = 1; });
    const bool other = crossed && world->rank() == 1;
    world->all_reduce(data + (other ? 1 : 0), 1, DType::kF64, ReduceOp::kSum, other ? "loss" : "norm").wait();
    world->all_reduce(data + (other ? 0 : 1), 1, DType::kF64, ReduceOp::kSum, other ? "norm" : "loss").wait();
    double sum = 0;
    Blob mine(sizeof(double));
    const double own = world->digest();
    std::memcpy(mine.data(), &own, sizeof(own));
    for (const Blob& blob : rank.job.exchange("digest", mine)) {
      double theirs = 0;
      std::memcpy(&theirs, blob.data(), sizeof(theirs));
      sum += theirs;
    }
    check_digests(*world, sum);
  });
}

// The reduction of a training step carries the digest.
TEST(Digest, TellsRanksThatHaveIssuedOtherOperations) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_TRUE(reduce_twice(seed, false).clean());
    const Outcome outcome = reduce_twice(seed, true);
    EXPECT_MENTIONS(outcome.text(),
                    "rank 1 has issued different operations than the other ranks; its last: #1 all-reduce "
                    "'norm'");
  }
}

// Where NCCL notices: it hangs or computes nonsense, as it likes; the others meet their deadline or the next
// barrier.
TEST(Digest, ADifferenceThatNcclCannotRunEndsWithTheOperation) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Outcome outcome = run_ranks({.seed = seed, .ranks = 2}, 0.3, 5, [](Rank& rank) {
      const auto world = rank.communicator();
      auto* data = static_cast<float*>(rank.machine.device_memory(64));
      if (rank.job.info().rank == 0) {
        (void)world->all_gather(data, 4, DType::kF32, "weights");
      } else {
        (void)world->all_gather(data, 5, DType::kF32, "weights");
      }
      world->barrier("end");
    });
    EXPECT_MENTIONS(outcome.text(),
                    "the ranks of 'id 1/1.0' differ: rank 0 is at ncclAllGather of 4 x type 7, rank 1 at "
                    "ncclAllGather of 5 x type 7");
    EXPECT_FALSE(outcome.errors[0].empty() || outcome.errors[1].empty()) << outcome.text();
    EXPECT_TRUE(outcome.standstill.empty()) << outcome.text();
  }
}

class Misfortune : public ::testing::TestWithParam<stand_in::Fate> {};

// At any call of the runtime or NCCL. The others learn of it by their deadline and end, and no library is
// misused on the way out.
TEST_P(Misfortune, OfOneRankEndsAllOfThemInGoodOrder) {
  const int calls = run_ranks({.seed = 1, .ranks = 3}, kTimeout, kPatience, train_in_small).calls[1];
  // NCCL tells of a rank that breaks once it knows it.
  const int first = GetParam() == stand_in::Fate::kBreaks ? 100 : 1;
  std::vector<int> chosen;
  for (int call = first; call <= calls; call += 1 + call / 12) chosen.push_back(call);
  EXPECT_EQ(each(chosen.size(),
                 [&](std::size_t at) {
                   const int call = chosen[at];
                   const Outcome outcome =
                       run_ranks({.seed = static_cast<std::uint64_t>(call),
                                  .ranks = 3,
                                  .fated_rank = 1,
                                  .fated_call = call,
                                  .fate = GetParam()},
                                 GetParam() == stand_in::Fate::kBreaks ? 4 * kPatience : 0.2, kPatience,
                                 train_in_small);
                   const bool good = outcome.faults.empty() && outcome.others_back(1);
                   return good ? "" : str("call ", call, " of ", calls, ":\n", outcome.text());
                 }),
            "");
}
INSTANTIATE_TEST_SUITE_P(Fates, Misfortune,
                         ::testing::Values(stand_in::Fate::kHangs, stand_in::Fate::kFails,
                                           stand_in::Fate::kBreaks));

}  // namespace
}  // namespace echelon::test
