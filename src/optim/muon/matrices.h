#pragma once
#include <vector>

#include "model/parameter.h"
#include "optim/options.h"
#include "shard/sharded_model.h"

namespace echelon {

/// Returns whether Muon updates this tensor. The other rule of the same optimizer updates all else.
[[nodiscard]] bool is_of_muon(const OptimOptions& options, const Parameter::Part& part);

/// Throws Error(kUsage) if optim.kind is muon and none of these parameters has a matrix for it.
void require_matrices(const OptimOptions& options, const std::vector<Parameter*>& parameters);

/// A matrix that is orthogonalized as a whole: a tensor, or one of those stacked in it.
struct MuonMatrix {
  std::int64_t at = 0;  ///< first element in the unit's flat buffer
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int owner = 0;         ///< rank of the shard group that orthogonalizes it
  double lr_factor = 1;  ///< of optim.lr_factors
  bool decays = true;    ///< optim.weight_decay applies
  [[nodiscard]] std::int64_t numel() const { return rows * columns; }
};

/// The matrices of each unit by rising offset, the same on all ranks. Of each unit, the largest matrix goes
/// first to the rank with the least work so far, counted in multiplications: rows * columns * the smaller.
[[nodiscard]] std::vector<std::vector<MuonMatrix>> muon_matrices(const OptimOptions& options,
                                                                 const ShardedModel& model);

}  // namespace echelon
