#include "optim/muon/matrices.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"
#include "optim/parameter_groups.h"

namespace echelon {
namespace {

std::vector<MuonMatrix> matrices_of(const OptimOptions& options, const FlatLayout& layout) {
  std::vector<MuonMatrix> found;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    std::int64_t at = layout.offset(i);
    for (const Parameter::Part& part : layout.parameters()[i]->parts()) {
      std::int64_t matrix_at = at;
      at += part.numel();
      if (!is_of_muon(options, part)) continue;
      const ParameterGroup group = group_of(options, part.name);
      for (const std::int64_t rows : part.matrices) {
        found.push_back({.at = matrix_at,
                         .rows = rows,
                         .columns = part.shape[1],
                         .lr_factor = group.lr_factor,
                         .decays = group.decays});
        matrix_at += found.back().numel();
      }
    }
  }
  return found;
}

void choose_owners(std::vector<MuonMatrix>& matrices, std::vector<double>& work) {
  const auto cost = [](const MuonMatrix* matrix) {
    return static_cast<double>(matrix->numel()) *
           static_cast<double>(std::min(matrix->rows, matrix->columns));
  };
  std::vector<MuonMatrix*> largest_first;
  for (MuonMatrix& matrix : matrices) largest_first.push_back(&matrix);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&](const MuonMatrix* a, const MuonMatrix* b) { return cost(a) > cost(b); });
  for (MuonMatrix* matrix : largest_first) {
    const auto least = std::min_element(work.begin(), work.end());
    matrix->owner = static_cast<int>(least - work.begin());
    *least += cost(matrix);
  }
}

}  // namespace

bool is_of_muon(const OptimOptions& options, const Parameter::Part& part) {
  return options.kind == OptimKind::kMuon && !part.matrices.empty() && !part.frozen &&
         !options.freezes(part.name) && !matches_any(options.muon.adamw, part.name);
}

void require_matrices(const OptimOptions& options, const std::vector<Parameter*>& parameters) {
  if (options.kind != OptimKind::kMuon) return;
  for (const Parameter::Part* part : parts_of(parameters)) {
    if (is_of_muon(options, *part)) return;
  }
  throw Error(
      Code::kUsage,
      "optim.kind is muon, but no matrix is left for it: what is trained are vectors, convolutions, "
      "embeddings, the output head, adapters, or tensors that optim.muon.adamw names; set optim.kind: "
      "adamw, or leave matrices out of optim.muon.adamw");
}

std::vector<std::vector<MuonMatrix>> muon_matrices(const OptimOptions& options, const ShardedModel& model) {
  std::vector<std::vector<MuonMatrix>> by_unit;
  std::vector<double> work(static_cast<std::size_t>(model.groups().shard().size()));
  for (const auto& unit : model.units()) {
    by_unit.push_back(matrices_of(options, unit->layout()));
    choose_owners(by_unit.back(), work);
  }
  return by_unit;
}

}  // namespace echelon
