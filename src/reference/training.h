#pragma once
#include <map>
#include <string>
#include <vector>

#include "optim/options.h"
#include "reference/parts.h"
#include "shapes/shapes.h"
#include "train/options.h"

namespace echelon::reference {

/// Training without ranks, units or micro-batches, in one process: loss of the global batch, its gradient by
/// ATen's autograd, clipping, update, averages. Weights and the states of the optimizer are fp64.
class Training {
 public:
  struct Options {
    ModelOptions model;
    LoraOptions lora;
    std::uint64_t seed = 0;  ///< of dropout
    OptimOptions optim;
    TrainOptions train;                 ///< of it the clipping
    at::ScalarType type = at::kDouble;  ///< of forward and backward
  };
  struct Step {
    double loss = 0;       ///< mean over all targets that count
    double grad_norm = 0;  ///< before clipping
  };

  Training(Options options, Weights start);

  /// `samples`: the global batch, one sample each. `left_out`: nothing is updated, as after an overflow.
  Step step(const std::vector<SampleBatch>& samples, double lr, bool left_out = false);

  [[nodiscard]] const Weights& weights() const { return weights_; }
  /// Gradients of the last step, before clipping. Frozen weights have none.
  [[nodiscard]] const Weights& gradients() const { return gradients_; }
  /// The averaged weights with optim.ema_decay; else empty.
  [[nodiscard]] const Weights& averages() const { return averages_; }
  /// The largest gradient that each element was updated with, as an absolute value.
  [[nodiscard]] const Weights& largest_gradients() const { return largest_; }

 private:
  [[nodiscard]] bool trains(const std::string& name) const;
  Step differentiate(const std::vector<SampleBatch>& samples);
  void clip(double norm);
  void update(const std::string& name, at::Tensor& weight, at::Tensor gradient, double lr);
  at::Tensor& state(const std::string& name, const at::Tensor& like);

  Options options_;
  Weights weights_;
  Weights gradients_;
  Weights clipped_;
  Weights averages_;
  Weights largest_;
  Weights states_;
  std::map<std::string, Dimensions> matrices_;  ///< of Muon: rows of each one stacked in a tensor
  std::int64_t steps_ = 0;
};

}  // namespace echelon::reference
