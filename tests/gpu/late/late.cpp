// The sharding engine over communicators whose results come as late as they can: under every strategy,
// prefetch and recomputation it must train as one rank does, and it needs each of its waits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/str.h"
#include "comm/mpi/mpi_world.h"
#include "dist/ranks.h"
#include "dist/sequence.h"
#include "gpu/late/late_communicator.h"
#include "shard/sharded_model.h"
#include "support/unsharded.h"

namespace echelon {
namespace {

using test::batch_of;
using test::Lateness;
using test::materialize;
using test::Sequence;
using testing::ranks;

constexpr int kLayers = 4;
constexpr int kSteps = 3;
constexpr int kPasses = 2;
constexpr double kLearningRate = 0.002;
const std::vector<int> kOrder{0, 1, 2, 1, 3};

Batch batch_for(int step, int pass, int rank) {
  return batch_of((step * kPasses + pass) * ranks().info().size + rank);
}

/// Weights of the whole model after kSteps of gradient descent on the batches of all ranks, by name.
const std::map<std::string, at::Tensor>& expected() {
  static const std::map<std::string, at::Tensor> weights = [] {
    Sequence model(kLayers, kOrder);
    materialize(model, 5);
    for (int step = 0; step < kSteps; ++step) {
      for (int pass = 0; pass < kPasses; ++pass) {
        for (int rank = 0; rank < ranks().info().size; ++rank)
          model.loss(batch_for(step, pass, rank), 1.0).backward();
      }
      const at::NoGradGuard no_grad;
      for (Parameter* parameter : model.parameters()) {
        at::Tensor& gradient = parameter->value.mutable_grad();
        parameter->value.sub_(gradient, kLearningRate);
        gradient.reset();
      }
    }
    std::map<std::string, at::Tensor> found;
    for (const Parameter* parameter : model.parameters())
      found[parameter->parts()[0].name] = parameter->value.detach().flatten().clone();
    return found;
  }();
  return weights;
}

/// Largest difference of this rank's weights from those, NaN when one is none.
double train(Communicator& comm, const EngineOptions& options) {
  ShardedModel model(std::make_unique<Sequence>(kLayers, kOrder), comm, options, 5, at::kCPU);
  for (int step = 0; step < kSteps; ++step) {
    model.prefetch();
    for (int pass = 0; pass < kPasses; ++pass)
      (void)model.accumulate(batch_for(step, pass, comm.rank()), 1.0, {pass == 0, pass + 1 == kPasses});
    model.finish_gradients();
    for (const auto& unit : model.units()) at::Tensor(unit->master()).sub_(unit->gradient(), kLearningRate);
    model.weights_changed();
  }
  double most = 0;
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces()) {
      const at::Tensor mine = unit->master().narrow(0, piece.at, piece.end - piece.begin);
      const at::Tensor theirs = expected().at(piece.part->name).slice(0, piece.begin, piece.end);
      const double difference = (mine - theirs).abs().max().item<double>();
      if (std::isnan(difference)) return difference;
      most = std::max(most, difference);
    }
  }
  return most;
}

EngineOptions with(const std::string& strategy, const std::string& recompute = "none",
                   std::int64_t prefetch = 1, const std::string& backward = "pre") {
  EngineOptions options;
  options.shard.strategy = choice_of<ShardStrategy>(strategy).value();
  options.shard.forward_prefetch = prefetch;
  options.shard.backward_prefetch = choice_of<BackwardPrefetch>(backward).value();
  options.activations.policy = choice_of<RecomputePolicy>(recompute).value();
  if (strategy.starts_with("hybrid")) options.shard.mesh = {ranks().info().size / 2, 2};
  return options;
}

/// The strategies that so many ranks allow.
std::vector<std::string> strategies() {
  std::vector<std::string> names{"full_shard", "shard_grad_op", "shard_optimizer", "no_shard"};
  if (ranks().info().size % 2 == 0) names.insert(names.end(), {"hybrid_shard", "hybrid_grad_op"});
  return names;
}

void expect_right(Communicator& mpi, const EngineOptions& options) {
  Lateness lateness;
  const auto comm = test::make_late(mpi, lateness);
  EXPECT_LT(train(*comm, options), 1e-4);
  if (comm->size() > 1) {
    EXPECT_GT(lateness.issued, 0) << "nothing was late";
  }
}

TEST(Late, EveryStrategyPrefetchAndRecomputationTrainsAsOneRankDoes) {
  const auto mpi = make_mpi_communicator(*ranks().job, 60.0);
  for (const std::string& strategy : strategies()) {
    for (const char* recompute : {"none", "full", "selective"}) {
      for (const std::int64_t prefetch : {0, 1, 3}) {
        for (const char* backward : {"pre", "post", "none"}) {
          SCOPED_TRACE(str(strategy, ", recompute ", recompute, ", prefetch ", prefetch, " ", backward));
          expect_right(*mpi, with(strategy, recompute, prefetch, backward));
        }
      }
    }
  }
}

TEST(Late, EveryOtherWayOfKeepingAndSendingDoes) {
  const auto mpi = make_mpi_communicator(*ranks().job, 60.0);
  for (const std::string& strategy : strategies()) {
    SCOPED_TRACE(strategy);
    EngineOptions options = with(strategy);
    options.reduce_at_end = true;
    expect_right(*mpi, options);
    options = with(strategy);
    options.shard.wrap.policy = WrapPolicy::kNone;
    expect_right(*mpi, options);
    options = with(strategy);
    options.shard.offload = Offload::kCpu;
    expect_right(*mpi, options);
  }
  for (const SwitchOrCount kept : {SwitchOrCount{false, 0}, SwitchOrCount{true, 2}}) {
    if (kept.count > 0 && ranks().info().size % kept.count != 0) continue;
    SCOPED_TRACE(str("reshard_after_forward ", kept.on, " ", kept.count));
    EngineOptions options = with("full_shard");
    options.shard.reshard_after_forward = kept;
    expect_right(*mpi, options);
  }
}

// Each operation in turn never delivers, as if its wait were left out of the engine.
TEST(Late, NeedsEachOfItsWaits) {
  if (ranks().info().size == 1) GTEST_SKIP() << "one rank waits for nobody";
  const auto mpi = make_mpi_communicator(*ranks().job, 60.0);
  for (const std::string& strategy : strategies()) {
    SCOPED_TRACE(strategy);
    Lateness whole;
    EXPECT_LT(train(*test::make_late(*mpi, whole), with(strategy)), 1e-4);
    EXPECT_EQ(whole.taken, whole.issued) << "some operation is never waited for";
    for (int number = 0; number < whole.issued; ++number) {
      Lateness lateness{.left_out = number};
      double off = std::nan("");
      try {
        off = train(*test::make_late(*mpi, lateness), with(strategy));
      } catch (const std::logic_error&) {
      }
      // What does not arrive on this rank may be missed by another one only.
      double missed = off < 1e-4 ? 0.0 : 1.0;
      mpi->all_reduce(&missed, 1, DType::kF64, ReduceOp::kSum, "missed").wait();
      if (!lateness.can_be_missed) continue;
      EXPECT_GT(missed, 0) << "nothing notices when " << lateness.left_out_as << " (#" << number
                           << ") does not arrive";
    }
  }
}

}  // namespace
}  // namespace echelon
