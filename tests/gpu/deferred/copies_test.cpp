// The device finds what it is for, and what copies to and from a device keeps it in order.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "gpu/deferred/deferred_device.h"
#include "model/ops/upload.h"
#include "shard/memory/offloaded_inputs.h"
#include "train/device_reader.h"

namespace echelon {
namespace {

using test::deferred::device;
using test::deferred::restart;
using test::deferred::seen;

at::Tensor pinned(std::int64_t n) {
  (void)device();
  return at::full({n}, 7.0F, at::TensorOptions(at::kFloat).pinned_memory(true));
}

TEST(DeferredDevice, FindsACopyThatIsNotWaitedFor) {
  restart();
  CopyStream copies(device());
  const at::Tensor host = pinned(8);
  for (const bool waits : {false, true}) {
    at::Tensor there = at::zeros({8}, device());
    CopyStream::Mark mark;
    {
      const CopyStream::Turn turn(copies);
      there.copy_(host, true);
      mark = turn.mark();
    }
    if (waits) mark.hold_stream();
    EXPECT_EQ(at::add(there, 1).cpu()[3].item<float>() == 8.0F, waits);
    EXPECT_EQ(seen().findings.empty(), waits);
    there.reset();
    restart();
  }
}

TEST(DeferredDevice, FillsHostMemoryOnlyWhenItIsWaitedFor) {
  restart();
  CopyStream copies(device());
  const at::Tensor there = at::full({8}, 3.0F, device());
  const at::Tensor host = pinned(8);
  CopyStream::Mark mark;
  {
    const CopyStream::Turn turn(copies);
    host.copy_(there, true);
    mark = turn.mark();
  }
  EXPECT_EQ(host[0].item<float>(), 7.0F);
  mark.hold_host();
  EXPECT_EQ(host[0].item<float>(), 3.0F);
  EXPECT_TRUE(seen().findings.empty());
}

TEST(DeferredDevice, FindsMemoryThatIsFreedWhileItIsUsed) {
  for (const bool told : {false, true}) {
    restart();
    CopyStream copies(device());
    std::optional<at::Tensor> there = at::full({8}, 3.0F, device());
    const at::Tensor host = pinned(8);
    {
      const CopyStream::Turn turn(copies);
      host.copy_(*there, true);
      if (told) turn.uses(*there);
    }
    there.reset();
    EXPECT_EQ(seen().findings.empty(), told);
  }
}

TEST(DeferredDevice, FindsACopyThatDoesNotWaitForWhatItCopies) {
  restart();
  const c10::Stream other = test::deferred::new_stream();
  const at::Tensor host = pinned(8);
  const at::Tensor there = at::full({8}, 3.0F, device());
  const c10::StreamGuard guard(other);
  host.copy_(there, true);
  EXPECT_FALSE(seen().findings.empty());
}

TEST(Upload, MakesNobodyWait) {
  restart();
  at::Tensor host = at::arange(100, at::kLong);
  const at::Tensor there = upload(host, device());
  host.zero_();  // at once
  EXPECT_EQ(test::deferred::host_waits(), 0);
  EXPECT_EQ(at::add(there, 1).cpu()[41].item<std::int64_t>(), 42);
  EXPECT_TRUE(seen().findings.empty());
}

TEST(ReadWindows, ReadADeviceWithoutStoppingIt) {
  restart();
  ReadWindows windows(64);
  const at::Tensor values = at::arange(1000, at::TensorOptions(at::kFloat).device(device()));
  std::vector<float> read(1000);
  windows.read(values, 0, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(test::deferred::host_waits(), 0);
  EXPECT_TRUE(seen().findings.empty());
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(read[static_cast<std::size_t>(i)], static_cast<float>(i));
}

TEST(OffloadedInputs, ComeBackInAnyOrder) {
  for (const bool reversed : {true, false}) {
    restart();
    CopyStream copies(device());
    OffloadedInputs offloaded(copies);
    std::vector<std::shared_ptr<OffloadedInputs::Input>> away;
    for (int i = 0; i < 5; ++i) away.push_back(offloaded.put(at::full({16}, i, device())));
    for (int i = 0; i < 5; ++i) {
      const int number = reversed ? 4 - i : i;
      const at::Tensor back = offloaded.take(away[static_cast<std::size_t>(number)]);
      EXPECT_EQ(at::add(back, 1).cpu()[7].item<float>(), static_cast<float>(number) + 1);
    }
    EXPECT_TRUE(seen().findings.empty()) << seen().findings.front();
  }
}

}  // namespace
}  // namespace echelon
