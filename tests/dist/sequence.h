#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "base/str.h"
#include "model/model.h"
#include "model/ops/ops.h"

namespace echelon::test {

constexpr std::int64_t kSequenceWidth = 12;

/// Layers "0", "1", ... of one square weight each, run in the order given. The loss is the sum of squares of
/// what comes out.
class Sequence final : public Model {
 public:
  Sequence(int layers, std::vector<int> order) : order_(std::move(order)) {
    embedding_layer_ =
        layers_.emplace_back(std::make_unique<Layer>("embedding", Layer::Role::kEmbedding)).get();
    embedding_ =
        &embedding_layer_->add("embedding.weight", std::vector<std::int64_t>{7, kSequenceWidth}, InitSpec{});
    for (int i = 0; i < layers; ++i) {
      Layer& layer = *layers_.emplace_back(std::make_unique<Layer>(str("layer.", i), Layer::Role::kBlock));
      weights_.push_back(&layer.add(str("layer.", i, ".weight"),
                                    std::vector<std::int64_t>{kSequenceWidth, kSequenceWidth},
                                    InitSpec{InitSpec::Kind::kNormal, 0.4F}));
      blocks_.push_back(&layer);
    }
  }
  at::Tensor loss(const Batch& batch, double gradient_scale) override {
    at::Tensor x = embedding_layer_->run(
        batch.ids, [this](const at::Tensor& flat) { return ops::embedding(flat, *embedding_); });
    for (const int i : order_) {
      Parameter* weight = weights_[static_cast<std::size_t>(i)];
      x = blocks_[static_cast<std::size_t>(i)]->run(
          x, [weight](const at::Tensor& in) { return ops::linear(in, *weight).tanh(); });
    }
    return x.square().sum() * gradient_scale;
  }
  SampleFlops flops_per_sample(const SampleShape&) const override { return {}; }

 private:
  std::vector<int> order_;
  Layer* embedding_layer_;
  Parameter* embedding_;
  std::vector<Layer*> blocks_;
  std::vector<Parameter*> weights_;
};

inline Batch batch_of(int rank) {
  Batch batch;
  batch.ids = at::arange(6, at::kLong).add(rank).remainder(7);
  return batch;
}

}  // namespace echelon::test
