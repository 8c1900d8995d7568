#include "optim/muon/muon.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/not_copied.h"
#include "base/str.h"
#include "optim/muon/newton_schulz.h"

namespace echelon {
namespace {

/// Units that are gathered, computed or sent back at a time.
constexpr std::size_t kFlights = 3;

double scale_of(MuonScale scale, const MuonMatrix& matrix) {
  const auto rows = static_cast<double>(matrix.rows);
  const auto columns = static_cast<double>(matrix.columns);
  return scale == MuonScale::kSpectral ? std::sqrt(std::max(1.0, rows / columns))
                                       : 0.2 * std::sqrt(std::max(rows, columns));
}

/// Elements [begin, end) of a slice of `size` elements, of which the first one is `first` of the unit's
/// buffer, that belong to the matrix; nothing if end <= begin.
struct Part {
  std::int64_t begin;
  std::int64_t end;
};
Part part_of(const MuonMatrix& matrix, std::int64_t first, std::int64_t size) {
  return {std::max(matrix.at - first, std::int64_t{0}), std::min(matrix.at + matrix.numel() - first, size)};
}

}  // namespace

/// One unit's matrices on their way to the owners and back.
struct Muon::Flight : NotCopied {
  ~Flight() {
    try {  // the network writes to the buffers until it is done; what failed is being reported
      gathering.wait();
      returning.wait();
    } catch (...) {
    }
  }

  std::size_t unit = 0;
  std::string label;
  at::Tensor whole;  ///< the unit's flat buffer in bf16: first momentum, then updates
  at::Tensor slice;  ///< this rank's updates, fp32
  Pending gathering;
  Pending returning;
};

Muon::Muon(const OptimOptions& options, const ShardedModel& model)
    : options_(options.muon),
      weight_decay_(options.weight_decay),
      model_(&model),
      matrices_(muon_matrices(options, model)) {
  require_matrices(options, model.model().parameters());
}

std::vector<Muon::Run> Muon::runs_of(std::size_t unit) const {
  const std::int64_t size = model_->units()[unit]->layout().slice_numel();
  const std::int64_t first = model_->groups().shard().rank() * size;
  std::vector<Run> runs;
  std::int64_t momentum_at = 0;
  for (const MuonMatrix& matrix : matrices_[unit]) {
    const auto [begin, end] = part_of(matrix, first, size);
    if (begin >= end) continue;
    const bool adjacent = !runs.empty() && runs.back().at + runs.back().numel == begin;
    if (!adjacent) runs.push_back({begin, momentum_at, 0});
    runs.back().numel += end - begin;
    momentum_at += end - begin;
  }
  return runs;
}

// One operation per rounding here and in apply(): a fused one may round differently at the end of a vector
// register, and where that is depends on the slice.
void Muon::start(Flight& flight, double gradient_factor, const at::Tensor& momentum) const {
  const Unit& unit = *model_->units()[flight.unit];
  Communicator& ranks = model_->groups().shard();
  const std::int64_t size = unit.layout().slice_numel();
  flight.label = "muon " + unit.name();
  flight.whole = at::empty({size * ranks.size()}, at::device(model_->device()).dtype(at::kBFloat16));
  for (const Run& run : runs_of(flight.unit)) {
    at::Tensor gradient = unit.gradient().narrow(0, run.at, run.numel);
    if (gradient_factor != 1.0) gradient.mul_(gradient_factor);
    at::Tensor mean = momentum.narrow(0, run.momentum_at, run.numel);
    mean.add_((gradient - mean).mul_(1 - options_.momentum));
    if (options_.nesterov) gradient.add_((mean - gradient).mul_(options_.momentum));
    flight.whole.narrow(0, ranks.rank() * size + run.at, run.numel)
        .copy_(options_.nesterov ? gradient : mean);
  }
  flight.gathering = ranks.all_gather(flight.whole.mutable_data_ptr(), static_cast<std::size_t>(size),
                                      DType::kBF16, flight.label);
}

void Muon::orthogonalize(Flight& flight) const {
  Communicator& ranks = model_->groups().shard();
  flight.gathering.wait();
  std::int64_t zeroed = 0;
  for (const MuonMatrix& matrix : matrices_[flight.unit]) {
    if (matrix.owner != ranks.rank()) continue;
    flight.whole.narrow(0, zeroed, matrix.at - zeroed).zero_();
    zeroed = matrix.at + matrix.numel();
    const at::Tensor values =
        flight.whole.narrow(0, matrix.at, matrix.numel()).view({matrix.rows, matrix.columns});
    values.copy_(newton_schulz(values, options_.ns_steps));
  }
  flight.whole.narrow(0, zeroed, flight.whole.numel() - zeroed).zero_();
  flight.slice = at::empty({flight.whole.numel() / ranks.size()}, flight.whole.options().dtype(at::kFloat));
  flight.returning = ranks.reduce_scatter(
      flight.whole.mutable_data_ptr(), DType::kBF16, flight.slice.mutable_data_ptr<float>(),
      static_cast<std::size_t>(flight.slice.numel()), 1.0F, false, flight.label);
}

void Muon::apply(Flight& flight, double lr) const {
  const Unit& unit = *model_->units()[flight.unit];
  flight.returning.wait();
  flight.whole.reset();
  const std::int64_t first = model_->groups().shard().rank() * flight.slice.numel();
  for (const MuonMatrix& matrix : matrices_[flight.unit]) {
    const auto [begin, end] = part_of(matrix, first, flight.slice.numel());
    if (begin >= end) continue;
    at::Tensor weights = unit.master().narrow(0, begin, end - begin);
    at::Tensor step = flight.slice.narrow(0, begin, end - begin);
    step.mul_(-lr * matrix.lr_factor * scale_of(options_.scale, matrix));
    if (matrix.decays && weight_decay_ != 0) weights.mul_(1 - lr * matrix.lr_factor * weight_decay_);
    weights.add_(step.to(weights.device()));
  }
  flight.slice.reset();
}

void Muon::update(double lr, double gradient_factor, const std::vector<at::Tensor>& momentum) const {
  std::vector<std::size_t> units;
  for (std::size_t u = 0; u < matrices_.size(); ++u) {
    if (!matrices_[u].empty()) units.push_back(u);
  }
  std::array<Flight, kFlights> flights;
  const auto start_unit = [&](std::size_t i) {
    Flight& flight = flights[i % kFlights];
    flight.unit = units[i];
    start(flight, gradient_factor, momentum[units[i]]);
  };
  start_unit(0);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i + 1 < units.size()) start_unit(i + 1);
    orthogonalize(flights[i % kFlights]);
    if (i > 0) apply(flights[(i - 1) % kFlights], lr);
  }
  apply(flights[(units.size() - 1) % kFlights], lr);
}

}  // namespace echelon
