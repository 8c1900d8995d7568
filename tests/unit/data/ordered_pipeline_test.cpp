#include "data/ordered_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <string>

namespace echelon::data {
namespace {

using Pipeline = OrderedPipeline<int, int>;

/// 0, 1, ..., count - 1.
Pipeline::Produce counter(int count, int& at) {
  return [count, &at]() -> std::optional<int> {
    if (at == count) return {};
    return at++;
  };
}

TEST(OrderedPipeline, KeepsTheOrderWhateverTheThreadsDo) {
  for (const int threads : {1, 2, 7}) {
    Pipeline pipeline(threads, []() -> Pipeline::Work {
      return [](int i) {
        if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return i * i;
      };
    });
    int at = 0;
    std::vector<int> results;
    pipeline.run(counter(200, at), [&](int value) { results.push_back(value); });
    ASSERT_EQ(results.size(), 200U);
    for (int i = 0; i < 200; ++i) ASSERT_EQ(results[static_cast<std::size_t>(i)], i * i);
  }
}

TEST(OrderedPipeline, HoldsABoundedNumberOfInputs) {
  Pipeline pipeline(2, []() -> Pipeline::Work { return [](int i) { return i; }; });
  int at = 0;
  int consumed = 0;
  pipeline.run(counter(100, at), [&](int) { EXPECT_LE(at - consumed++, 8); });
  EXPECT_EQ(consumed, 100);
}

TEST(OrderedPipeline, GivesEachThreadItsOwnWork) {
  std::atomic<int> made{0};
  const Pipeline pipeline(3, [&]() -> Pipeline::Work {
    ++made;
    return [](int i) { return i; };
  });
  EXPECT_EQ(made, 3);
}

/// An input that can be copied only so often; there is no memory for another one.
struct Large {
  explicit Large(int most) : copies(most) {}
  Large(const Large& other) : copies(other.copies - 1) {
    if (copies < 0) throw std::bad_alloc();
  }
  int copies;
};

TEST(OrderedPipeline, WaitsForNoInputThatItCouldNotHold) {
  using OfLarge = OrderedPipeline<Large, int>;
  OfLarge pipeline(1, []() -> OfLarge::Work { return [](const Large& input) { return input.copies; }; });
  for (const int copies : {0, 1}) {  // into a job, and with it into the queue
    EXPECT_THROW(pipeline.submit(Large(copies)), std::bad_alloc);
    EXPECT_EQ(pipeline.under_way(), 0U);
  }
}

/// Runs 0..99 with faults at the given inputs; what comes out and how many results came before.
std::pair<std::string, int> first_failure(int in_produce, int in_work, int in_consume) {
  Pipeline pipeline(3, [&]() -> Pipeline::Work {
    return [&](int i) {
      if (i >= in_work) throw std::runtime_error("work " + std::to_string(i));
      return i;
    };
  });
  int at = 0;
  int consumed = 0;
  try {
    pipeline.run(
        [&]() -> std::optional<int> {
          if (at == in_produce) throw std::runtime_error("produce " + std::to_string(at));
          return at++;
        },
        [&](int i) {
          if (i == in_consume) throw std::runtime_error("consume " + std::to_string(i));
          ++consumed;
        });
  } catch (const std::exception& e) {
    return {e.what(), consumed};
  }
  return {"", consumed};
}

TEST(OrderedPipeline, ReportsTheFirstFailureInInputOrder) {
  EXPECT_EQ(first_failure(50, 20, 90), (std::pair<std::string, int>("work 20", 20)));
  EXPECT_EQ(first_failure(21, 20, 90), (std::pair<std::string, int>("work 20", 20)));
  EXPECT_EQ(first_failure(20, 20, 90), (std::pair<std::string, int>("produce 20", 20)));
  EXPECT_EQ(first_failure(50, 60, 10), (std::pair<std::string, int>("consume 10", 10)));
  EXPECT_EQ(first_failure(0, 60, 10), (std::pair<std::string, int>("produce 0", 0)));
}

}  // namespace
}  // namespace echelon::data
