#include "book/timing.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/steady_time.h"
#include "book/books.h"
#include "book/device.h"
#include "book/stopwatch.h"
#include "model/kernels/kernels.h"
#include "model/kernels/observer.h"

namespace echelon::book {
namespace {

using forecast::Trace;
using forecast::Work;

template <class Observation, class F>
Trace observed(const F& body) {
  const Observation observation;
  books().begin(std::make_shared<Activity>(), [] { return std::int64_t{0}; });
  body();
  return books().end();
}

std::string names_of(const Trace& trace) {
  std::string names;
  for (const Work& work : trace.works) names += trace.names[work.name] + " ";
  return names;
}

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kWidth = 1000;

/// A relu of `rows`, a row at a time; returns how many it went through.
std::int64_t relu_each(at::Tensor& rows) {
  std::int64_t seen = 0;
  kernels::for_equal_rows(0, kRows, [&](std::int64_t row) {
    ++seen;
    kernels::kernels<float>().relu(rows.data_ptr<float>() + row * kWidth, kWidth);
  });
  return seen;
}

TEST(Timing, ComputesAndSaysHowLongEachOperationTook) {
  const at::Tensor a = at::rand({64, 64});
  at::Tensor product;
  const Trace trace = observed<Timing>([&] {
    product = at::mm(a, a);
    product.add_(1);
  });
  EXPECT_TRUE(at::equal(product, at::mm(a, a).add_(1)));
  ASSERT_EQ(names_of(trace), "mm add_ ");
  for (const Work& work : trace.works) EXPECT_GT(work.seconds, 0);
  EXPECT_EQ(trace.works[0].flops, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(trace.names[trace.works[0].after], "begin");
  EXPECT_EQ(trace.names[trace.works[1].after], "mm");
}

TEST(Timing, GivesWhatAThreadDoesToTheNextWork) {
  constexpr std::chrono::milliseconds kWait{30};
  const at::Tensor a = at::rand({16, 16});
  const Trace trace = observed<Timing>([&] {
    (void)at::mm(a, a);
    std::this_thread::sleep_for(kWait);
    (void)at::mm(a, a);
    const double began_s = steady_now_s();
    std::this_thread::sleep_for(kWait);
    stopwatch::set_aside(steady_now_s() - began_s);
    (void)at::mm(a, a);
  });
  ASSERT_EQ(names_of(trace), "mm mm mm ");
  EXPECT_GE(trace.works[1].before_s, 0.03);
  EXPECT_LT(trace.works[1].seconds, trace.works[1].before_s);
  // What was set aside counts for nothing, whatever else happened.
  EXPECT_LT(trace.works[2].before_s, 0.03);
}

TEST(Observed, EqualRowsAreOneWork) {
  at::Tensor rows = at::randn({kRows, kWidth});
  const at::Tensor expected = at::relu(rows);
  std::int64_t seen = 0;
  const Trace timed = observed<Timing>([&] { seen = relu_each(rows); });
  EXPECT_EQ(seen, kRows);
  EXPECT_TRUE(at::equal(rows, expected));
  ASSERT_EQ(names_of(timed), "relu ");
  EXPECT_GT(timed.works[0].seconds, 0);
  const Trace recorded = observed<Recording>([&] { seen = relu_each(rows); });
  EXPECT_EQ(seen, 1);
  ASSERT_EQ(names_of(recorded), "relu ");
  EXPECT_EQ(recorded.works[0].bytes, timed.works[0].bytes);
  EXPECT_EQ(recorded.works[0].bytes, 2.0 * kRows * kWidth * sizeof(float));
}

/// A relu and a zero_ in each of three tasks; returns how many ran.
std::int64_t three_tasks(at::Tensor& values, bool equal) {
  const kernels::Tasks tasks(3, equal);
  const c10::ParallelGuard in_threads(true);
  for (std::int64_t i = 0; i < tasks.to_run(); ++i) {
    kernels::kernels<float>().relu(values.data_ptr<float>(), values.numel());
    values.zero_();
  }
  return tasks.to_run();
}

TEST(Observed, OneOfEqualTasksStandsForAll) {
  at::Tensor values = at::randn({kWidth});
  std::int64_t run = 0;
  const Trace equal = observed<Recording>([&] { run = three_tasks(values, true); });
  EXPECT_EQ(run, 1);
  ASSERT_EQ(names_of(equal), "relu zero_ ");
  EXPECT_EQ(equal.works[0].tasks, 3);
  EXPECT_EQ(equal.works[0].bytes, 3 * 2.0 * kWidth * sizeof(float));
  EXPECT_EQ(equal.names[equal.works[0].after], "begin");
  EXPECT_EQ(equal.names[equal.works[0].again_after], "zero_");
  const Trace unequal = observed<Recording>([&] { run = three_tasks(values, false); });
  EXPECT_EQ(run, 3);
  ASSERT_EQ(names_of(unequal), "relu zero_ relu zero_ relu zero_ ");
  EXPECT_EQ(unequal.works[2].tasks, 1);
  const Trace timed = observed<Timing>([&] { run = three_tasks(values, true); });
  EXPECT_EQ(run, 3);
  EXPECT_EQ(timed.works.size(), 6U);
}

}  // namespace
}  // namespace echelon::book
