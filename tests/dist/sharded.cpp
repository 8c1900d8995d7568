// The sharding engine on real ranks, with models that are not one straight line: modules that run twice,
// modules that do not run, and ranks that disagree about it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str.h"
#include "dist/ranks.h"
#include "model/ops/ops.h"
#include "shard/sharded_model.h"

namespace echelon {
namespace {

using testing::ranks;

constexpr std::int64_t kWidth = 12;

/// Layers "0", "1", ... of one square weight each, run in the order given. The loss is the sum of squares of
/// what comes out.
class Sequence final : public Model {
 public:
  Sequence(int layers, std::vector<int> order) : order_(std::move(order)) {
    embedding_layer_ =
        layers_.emplace_back(std::make_unique<Layer>("embedding", Layer::Role::kEmbedding)).get();
    embedding_ = &embedding_layer_->add("embedding.weight", std::vector<std::int64_t>{7, kWidth}, InitSpec{});
    for (int i = 0; i < layers; ++i) {
      Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(str("layer.", i), Layer::Role::kBlock));
      weights_.push_back(&layer.add(str("layer.", i, ".weight"), std::vector<std::int64_t>{kWidth, kWidth},
                                    InitSpec{InitSpec::Kind::kNormal, 0.4F}));
      blocks_.push_back(&layer);
    }
  }
  at::Tensor loss(const at::Tensor& ids, double gradient_scale) override {
    at::Tensor x = embedding_layer_->run(
        ids.reshape({-1}), [this](const at::Tensor& flat) { return ops::embedding(flat, *embedding_); });
    for (const int i : order_) {
      Parameter* weight = weights_[static_cast<std::size_t>(i)];
      x = blocks_[static_cast<std::size_t>(i)]->run(
          x, [weight](const at::Tensor& in) { return ops::linear(in, *weight).tanh(); });
    }
    return x.square().sum() * gradient_scale;
  }
  at::Tensor next_token_logits(const at::Tensor& ids) override { return ids; }
  std::string hugging_face_config() const override { return "{}"; }
  double flops_per_token(std::int64_t) const override { return 0; }

 private:
  std::vector<int> order_;
  Layer* embedding_layer_;
  Parameter* embedding_;
  std::vector<Layer*> blocks_;
  std::vector<Parameter*> weights_;
};

at::Tensor ids_of(int rank) {
  return at::arange(6, at::kLong).add(rank).remainder(7);
}

/// Gradients of the unsharded model over the batches of all ranks, by parameter name.
std::map<std::string, at::Tensor> expected(int layers, const std::vector<int>& order) {
  Sequence model(layers, order);
  materialise(model, 5, at::kFloat, at::kCPU);
  for (int rank = 0; rank < ranks().info().size; ++rank) model.loss(ids_of(rank), 1.0).backward();
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
    (void)model.accumulate(ids_of(comm->rank()), 1.0, {});
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
  options.shard.strategy = strategy;
  options.activations.policy = recompute;
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

TEST(Sharded, RanksThatRunDifferentModulesAreToldWhich) {
  if (ranks().info().size == 1) return;  // one rank cannot disagree
  const auto comm = make_mpi_communicator(*ranks().job, 30.0);
  const bool last = comm->rank() == comm->size() - 1;
  ShardedModel model(std::make_unique<Sequence>(3, last ? std::vector{0, 2} : std::vector{0, 1, 2}), *comm,
                     {}, 5, at::kCPU);
  try {
    for (int pass = 0; pass < 2; ++pass) {
      (void)model.accumulate(ids_of(comm->rank()), 1.0, {});
      model.finish_gradients();
    }
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kPeer) << error.what();
    const std::string text = error.what();
    EXPECT_NE(text.find(str("rank ", comm->size() - 1)), std::string::npos) << text;
    const std::size_t first = text.find("'layer.");  // the two modules by name
    const std::size_t second = text.find("'layer.", first + 1);
    ASSERT_NE(second, std::string::npos) << text;
    EXPECT_NE(text.substr(first, 9), text.substr(second, 9)) << text;
  }
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  return echelon::testing::run_ranks(argc, argv, echelon::finish_mpi);
}
