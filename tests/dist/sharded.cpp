// The sharding engine on real ranks, with models that are not one straight line: modules that run twice,
// modules that do not run, and ranks that disagree about it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/str.h"
#include "comm/mpi/mpi_world.h"
#include "dist/ranks.h"
#include "dist/sequence.h"
#include "shard/sharded_model.h"
#include "support/unsharded.h"

namespace echelon {
namespace {

using test::batch_of;
using test::materialize;
using test::Sequence;
using testing::ranks;

/// Gradients of the unsharded model over the batches of all ranks, by parameter name.
std::map<std::string, at::Tensor> expected(int layers, const std::vector<int>& order) {
  Sequence model(layers, order);
  materialize(model, 5);
  for (int rank = 0; rank < ranks().info().size; ++rank) model.loss(batch_of(rank), 1.0).backward();
  std::map<std::string, at::Tensor> gradients;
  for (const Parameter* parameter : model.parameters()) {
    const at::Tensor& grad = parameter->value.grad();
    gradients[parameter->parts()[0].name] =
        (grad.defined() ? grad : at::zeros_like(parameter->value)).detach().flatten();
  }
  return gradients;
}

void expect_gradients(int layers, const std::vector<int>& order, const EngineOptions& options) {
  const auto comm = make_mpi_communicator(*ranks().job, 30.0);
  ShardedModel model(std::make_unique<Sequence>(layers, order), *comm, options, 5, at::kCPU);
  for (int pass = 0; pass < 3; ++pass) {  // the first records the order, the others follow it
    (void)model.accumulate(batch_of(comm->rank()), 1.0, {});
    model.finish_gradients();
  }
  const auto right = expected(layers, order);
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      const at::Tensor mine = unit->gradient().narrow(0, piece.at, piece.end - piece.begin);
      const at::Tensor theirs = right.at(piece.part->name).slice(0, piece.begin, piece.end);
      EXPECT_LT((mine - theirs).abs().max().item<double>(), 1e-5) << piece.part->name;
    }
  }
}

EngineOptions with(const std::string& strategy, const std::string& recompute = "none") {
  EngineOptions options;
  options.shard.strategy = choice_of<ShardStrategy>(strategy).value();
  options.activations.policy = choice_of<RecomputePolicy>(recompute).value();
  return options;
}

TEST(Sharded, AModuleThatRunsSeveralTimesIsReducedOnce) {
  for (const char* strategy : {"full_shard", "shard_grad_op", "shard_optimizer", "no_shard"}) {
    for (const char* recompute : {"none", "full"}) {
      SCOPED_TRACE(str(strategy, " ", recompute));
      expect_gradients(3, {0, 1, 0, 2, 1, 0}, with(strategy, recompute));
    }
  }
}

TEST(Sharded, AModuleThatNoRankRunsHasNoGradient) {
  for (const char* strategy : {"full_shard", "no_shard"}) expect_gradients(4, {0, 3}, with(strategy));
}

}  // namespace
}  // namespace echelon
