#include "data/batch_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"

namespace echelon {
namespace {

/// Each sample's id is its number. Reading one of some numbers takes longer, reading `bad` fails.
class Numbers final : public Loader {
 public:
  explicit Numbers(std::int64_t bad = -1) : bad_(bad) { identify(1000, 1, {1, 0, 1}); }
  void append(std::int64_t sample, SampleBatch& batch) const override {
    ++reads;
    if (sample % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (sample == bad_) throw Error(Code::kData, "sample is bad");
    batch.ids.push_back(sample);
    batch.lengths.push_back(1);
  }
  mutable std::atomic<int> reads{0};

 private:
  std::int64_t bad_;
};

TEST(BatchStream, GivesTheSameBatchesForAnyNumberOfWorkers) {
  for (const std::int64_t workers : {0, 1, 4}) {
    for (const std::int64_t ahead : {1, 2, 5}) {
      const Numbers numbers;
      BatchStream stream(numbers, {.first = 6, .samples = 2, .stride = 8}, workers, ahead);
      for (std::int64_t k = 0; k < 20; ++k) {
        const SampleBatch batch = stream.next();
        EXPECT_EQ(batch.ids, (std::vector<std::int64_t>{6 + 8 * k, 7 + 8 * k})) << workers << ' ' << ahead;
      }
    }
  }
}

/// Batches that are read once the first is taken.
int reads_of(std::int64_t workers, std::int64_t ahead, int expected) {
  const Numbers numbers;
  BatchStream stream(numbers, {.first = 0, .samples = 1, .stride = 1}, workers, ahead);
  (void)stream.next();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (numbers.reads < expected && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a read too many would begin at once
  return numbers.reads;
}

TEST(BatchStream, ReadsAheadNoFurtherThanAsked) {
  EXPECT_EQ(reads_of(2, 3, 4), 4);
}

TEST(BatchStream, EveryWorkerReadsABatch) {
  EXPECT_EQ(reads_of(4, 2, 5), 5);
}

TEST(BatchStream, AnErrorComesWithItsBatchAndNotBefore) {
  const Numbers numbers(5);
  BatchStream stream(numbers, {.first = 0, .samples = 1, .stride = 1}, 2, 4);
  for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(stream.next().ids.front(), k);
  EXPECT_THROW((void)stream.next(), Error);
  EXPECT_EQ(stream.next().ids.front(), 6);
}

}  // namespace
}  // namespace echelon
