#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "optim/muon/matrices.h"

namespace echelon {

/// Muon (Jordan et al., as torch.optim.Muon): moves each matrix along its orthogonalized momentum. Every
/// matrix has one owner in the shard group. Slices of the momentum travel to it in bf16 with an all-gather of
/// the unit, and the update travels back with a reduce-scatter of zeros and the owners' results, of which
/// every sum has one summand. So a rank sends, per unit with matrices, at most twice its elements in bf16,
/// and the bits do not depend on the number of ranks. While an owner computes, the unit before it is sent
/// back and the next one is gathered: three units in bf16, and one slice in fp32, at a time.
class Muon {
 public:
  /// `model` must outlive this object. Throws Error(kUsage) for a model without matrices.
  Muon(const OptimOptions& options, const ShardedModel& model);

  /// Updates the weights of matrices and their `momentum`: by unit, packed() of what is_of_muon(). Contents
  /// of gradients are undefined afterwards. Collective over the shard group. Call without autograd.
  void update(double lr, double gradient_factor, const std::vector<at::Tensor>& momentum) const;

 private:
  struct Flight;
  /// Adjacent elements of matrices in this rank's slice.
  struct Run {
    std::int64_t at = 0;           ///< in the slice
    std::int64_t momentum_at = 0;  ///< in the momentum
    std::int64_t numel = 0;
  };
  [[nodiscard]] std::vector<Run> runs_of(std::size_t unit) const;
  void start(Flight& flight, double gradient_factor, const at::Tensor& momentum) const;
  void orthogonalize(Flight& flight) const;
  void apply(Flight& flight, double lr) const;

  MuonOptions options_;
  double weight_decay_;
  const ShardedModel* model_;
  std::vector<std::vector<MuonMatrix>> matrices_;  ///< by unit
};

}  // namespace echelon
