#include "book/timing.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/steady_time.h"
#include "book/books.h"
#include "book/device.h"
#include "book/stopwatch.h"
#include "model/kernels/kernels.h"
#include "model/ops/access.h"

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

constexpr std::int64_t kWidth = 1000;

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
  double second_s = 0;  // what the second work takes at most, however busy the machine is
  double third_s = 0;   // and what there is from its start to the third one's end but for what is set aside
  const Trace trace = observed<Timing>([&] {
    (void)at::mm(a, a);
    std::this_thread::sleep_for(kWait);
    const double second_began_s = steady_now_s();
    (void)at::mm(a, a);
    const double second_ended_s = steady_now_s();
    std::this_thread::sleep_for(kWait);
    const double aside_s = steady_now_s() - second_ended_s;
    stopwatch::set_aside(aside_s);
    (void)at::mm(a, a);
    second_s = second_ended_s - second_began_s;
    third_s = steady_now_s() - second_began_s - aside_s;
  });
  ASSERT_EQ(names_of(trace), "mm mm mm ");
  EXPECT_GE(trace.works[1].before_s, 0.03);
  EXPECT_LE(trace.works[1].seconds, second_s);
  EXPECT_LE(trace.works[2].before_s, third_s);
}

TEST(Observed, AKernelOfTheTableIsOneWork) {
  const at::Tensor x = at::randn({6, kWidth});
  const auto convert = [&] {
    at::Tensor wide = at::zeros({6, kWidth});
    kernels::kernels<float>().to_float(x.data_ptr<float>(), wide.data_ptr<float>(), x.numel());
    return wide;
  };
  at::Tensor found;
  const Trace timed = observed<Timing>([&] { found = convert(); });
  EXPECT_TRUE(at::equal(found, x));
  ASSERT_EQ(names_of(timed), "zero_ to_float ");
  EXPECT_GT(timed.works[1].seconds, 0);
  const Trace recorded = observed<Recording>([&] { found = convert(); });
  EXPECT_EQ(recorded.works.back().bytes, timed.works[1].bytes);
  EXPECT_EQ(recorded.works.back().bytes, 2.0 * 6 * kWidth * sizeof(float));
}

/// A to_float and a zero_ in each of three tasks; returns how many ran.
std::int64_t three_tasks(at::Tensor& values, bool equal) {
  std::int64_t run = 0;
  ops::for_each_task(3, equal, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i, ++run) {
      kernels::kernels<float>().to_float(values.data_ptr<float>(), values.data_ptr<float>(), values.numel());
      values.zero_();
    }
  });
  return run;
}

TEST(Observed, OneOfEqualTasksStandsForAll) {
  at::Tensor values = at::randn({kWidth});
  std::int64_t run = 0;
  const Trace equal = observed<Recording>([&] { run = three_tasks(values, true); });
  EXPECT_EQ(run, 1);
  ASSERT_EQ(names_of(equal), "to_float zero_ ");
  EXPECT_EQ(equal.works[0].tasks, 3);
  EXPECT_EQ(equal.works[0].bytes, 3 * 2.0 * kWidth * sizeof(float));
  EXPECT_EQ(equal.names[equal.works[0].after], "begin");
  EXPECT_EQ(equal.names[equal.works[0].again_after], "zero_");
  const Trace unequal = observed<Recording>([&] { run = three_tasks(values, false); });
  EXPECT_EQ(run, 3);
  ASSERT_EQ(names_of(unequal), "to_float zero_ to_float zero_ to_float zero_ ");
  EXPECT_EQ(unequal.works[2].tasks, 1);
  const Trace timed = observed<Timing>([&] { run = three_tasks(values, true); });
  EXPECT_EQ(run, 3);
  EXPECT_EQ(timed.works.size(), 6U);
}

}  // namespace
}  // namespace echelon::book
