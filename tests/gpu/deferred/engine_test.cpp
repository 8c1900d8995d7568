// The sharding engine on a device whose copies come as late as they can: what goes through host memory must
// change nothing, and each place that puts streams in order is needed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "base/str.h"
#include "comm/local_communicator.h"
#include "gpu/deferred/deferred_device.h"
#include "gpu/deferred/training.h"

namespace echelon {
namespace {

using test::deferred::small;
using test::deferred::Subject;
using test::deferred::train_on_device;

/// Units on the device are as expected but for `most`, and everything was in order.
void expect_in_order(const EngineOptions& options, const std::vector<at::Tensor>& expected,
                     const Subject& subject = small("llama"), double most = 0) {
  test::deferred::restart();
  const std::vector<at::Tensor> found = train_on_device(subject, options);
  const std::vector<std::string> findings = test::deferred::seen().findings;
  EXPECT_TRUE(findings.empty()) << findings.size() << ", first: " << findings.front();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), most) << "unit " << i;
}

EngineOptions with(const std::string& strategy, const std::string& precision) {
  EngineOptions options;
  options.shard.strategy = choice_of<ShardStrategy>(strategy).value();
  options.precision.preset = choice_of<PrecisionPreset>(precision).value();
  return options;
}

class Deferred : public testing::Test {
 protected:
  static void SetUpTestSuite() { test::deferred::install_kernels(); }
};

TEST_F(Deferred, WhatWaitsInHostMemoryChangesNoBit) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const char* strategy : {"full_shard", "shard_grad_op", "no_shard"}) {
      const auto expected = train_on_device(small("llama"), with(strategy, precision));
      for (const char* recompute : {"none", "full", "every_n"}) {
        for (const bool reduce_at_end : {false, true}) {
          SCOPED_TRACE(str(strategy, ", ", precision, ", recompute ", recompute, ", ", reduce_at_end));
          EngineOptions options = with(strategy, precision);
          options.activations.policy = choice_of<RecomputePolicy>(recompute).value();
          options.activations.every_n = 2;
          options.activations.offload = true;
          options.reduce_at_end = reduce_at_end;
          const auto same = reduce_at_end ? train_on_device(small("llama"), options) : expected;
          expect_in_order(options, same);
          options.shard.offload = Offload::kCpu;
          expect_in_order(options, same);
        }
      }
    }
  }
}

/// The places that training by `options` can do without.
std::set<std::string> not_needed(const EngineOptions& options, std::set<std::string>& all) {
  test::deferred::restart();
  const std::vector<at::Tensor> expected = train_on_device(small("llama"), options);
  std::set<std::string> spare;
  for (const std::string& place : test::deferred::seen().places) {
    all.insert(place);
    test::deferred::restart(place);
    const std::vector<at::Tensor> found = train_on_device(small("llama"), options);
    bool noticed = !test::deferred::seen().findings.empty();
    for (std::size_t i = 0; i < found.size(); ++i) noticed |= !found[i].equal(expected[i]);
    if (!noticed) spare.insert(place);
    test::deferred::restart();
  }
  return spare;
}

TEST_F(Deferred, EachPlaceThatPutsStreamsInOrderIsNeeded) {
  std::set<std::string> places;
  EngineOptions options = with("full_shard", "bf16");
  options.shard.offload = Offload::kCpu;
  for (const std::string& place : not_needed(options, places)) ADD_FAILURE() << place;
  options.shard.offload = Offload::kNone;
  options.activations.policy = RecomputePolicy::kFull;
  options.activations.offload = true;
  for (const std::string& place : not_needed(options, places)) ADD_FAILURE() << place;
  EXPECT_EQ(places.size(), 7U) << testing::PrintToString(places);
}

class EachKind : public testing::TestWithParam<std::string_view> {
 protected:
  static void SetUpTestSuite() { test::deferred::install_kernels(); }
};

TEST_P(EachKind, TrainsOnTheDeviceAsOnTheCpu) {
  LocalCommunicator alone;
  const Subject subject = small(std::string(GetParam()));
  const EngineOptions options = with("full_shard", "fp32");
  expect_in_order(options, train(alone, at::kCPU, subject, options), subject, 1e-5);
}

TEST_P(EachKind, TrainsOnTheDeviceAsOnTheCpuWithAFrozenStart) {
  Subject subject = small(std::string(GetParam()));
  const auto model = build_model(subject.model, at::kFloat, at::kCPU);
  const std::vector<Parameter*> parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size() / 2; ++i) {
    for (const Parameter::Part& part : parameters[i]->parts()) subject.frozen.push_back(part.name);
  }
  LocalCommunicator alone;
  const auto expected = train(alone, at::kCPU, subject, with("full_shard", "fp32"));
  for (const char* strategy : {"full_shard", "shard_optimizer"}) {
    for (const char* recompute : {"none", "full"}) {
      SCOPED_TRACE(str(strategy, ", recompute ", recompute));
      EngineOptions options = with(strategy, "fp32");
      options.activations.policy = choice_of<RecomputePolicy>(recompute).value();
      expect_in_order(options, expected, subject, 1e-5);
    }
  }
}

/// Of PyTorch's operations those whose sums on a GPU have no fixed order or, where
/// at::Context::setDeterministicAlgorithms() gives them one, are slow (torch.use_deterministic_algorithms'
/// list and the kernels that call alertNotDeterministic()).
const std::set<std::string> kInNoOrder{
    "aten::_adaptive_avg_pool2d_backward",
    "aten::_index_put_impl_",
    "aten::avg_pool3d_backward.grad_input",
    "aten::bincount",
    "aten::cumsum",
    "aten::cumsum.out",
    "aten::gather_backward",
    "aten::grid_sampler_2d_backward",
    "aten::histc",
    "aten::index_add",
    "aten::index_add.out",
    "aten::index_add_",
    "aten::index_copy",
    "aten::index_copy_",
    "aten::index_put",
    "aten::index_put_",
    "aten::max_pool2d_with_indices_backward",
    "aten::max_pool2d_with_indices_backward.grad_input",
    "aten::median",
    "aten::nll_loss2d_backward",
    "aten::nll_loss2d_forward",
    "aten::put_",
    "aten::reflection_pad2d_backward",
    "aten::replication_pad2d_backward",
    "aten::scatter_add",
    "aten::scatter_add.out",
    "aten::scatter_add_",
    "aten::scatter_reduce.two",
    "aten::upsample_bilinear2d_backward",
};

TEST_P(EachKind, SumsInOneOrder) {
  test::deferred::restart();
  (void)train_on_device(small(std::string(GetParam())), with("full_shard", "bf16"));
  const auto operations = test::deferred::seen().operations;
  EXPECT_GT(operations.size(), 10U);
  for (const std::string& operation : operations) EXPECT_EQ(kInNoOrder.count(operation), 0U) << operation;
}

INSTANTIATE_TEST_SUITE_P(Models, EachKind, testing::ValuesIn(kWords<ModelKind>));

TEST_F(Deferred, SeesAnOperationThatSumsInNoOrder) {
  test::deferred::restart();
  at::Tensor table = at::ones({8, 2}, test::deferred::device()).requires_grad_(true);
  at::index_select(table, 0, at::arange(4, test::deferred::device()).to(at::kLong)).sum().backward();
  bool seen = false;
  for (const std::string& operation : test::deferred::seen().operations)
    seen |= kInNoOrder.count(operation) > 0;
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace echelon
