#include "optim/muon/muon.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/str.h"
#include "optim/muon/newton_schulz.h"
#include "optim/optimizer.h"
#include "support/matches.h"
#include "support/refusal.h"
#include "unit/train/small_model.h"

namespace echelon {
namespace {

constexpr double kLr = 0.02;
constexpr double kDecay = 0.1;

OptimOptions muon(MuonOptions options) {
  return {.kind = OptimKind::kMuon,
          .weight_decay = kDecay,
          .muon = std::move(options),
          .no_decay = {"*.0.*"},
          .lr_factors = {{"*.1.*", 0.5}}};
}

/// One matrix through two updates, as torch.optim.Muon makes them.
at::Tensor expected(at::Tensor weight, const std::vector<at::Tensor>& gradients, const OptimOptions& options,
                    double lr, double decay) {
  at::Tensor mean = at::zeros_like(weight);
  const double mu = options.muon.momentum;
  const auto rows = static_cast<double>(weight.size(0));
  const auto columns = static_cast<double>(weight.size(1));
  const double scale = options.muon.scale == MuonScale::kSpectral ? std::sqrt(std::max(1.0, rows / columns))
                                                                  : 0.2 * std::sqrt(std::max(rows, columns));
  for (const at::Tensor& gradient : gradients) {
    // Not at::lerp(), whose last bit may round an element to another neighbor in bf16, which moves all of
    // them.
    mean = mean + (gradient - mean) * (1 - mu);
    const at::Tensor used = options.muon.nesterov ? gradient + (mean - gradient) * mu : mean;
    const at::Tensor update = newton_schulz(used.to(at::kBFloat16), options.muon.ns_steps).to(at::kFloat);
    weight = weight * (1 - lr * decay) - lr * scale * update;
  }
  return weight;
}

/// Whole tensors by name; unsharded.
using Tensors = std::map<std::string, at::Tensor>;
Tensors copies(const ShardedModel& model, const at::Tensor& (Unit::*of)() const) {
  Tensors found;
  for (const auto& unit : model.units()) {
    for (const SlicePiece& piece : unit->pieces())
      found[piece.part->name] =
          ((*unit).*of)().narrow(0, piece.at, piece.numel()).view(piece.part->shape).clone();
  }
  return found;
}

void expect_follows(const OptimOptions& options, const ModelOptions& shape) {
  LocalCommunicator comm;
  const ShardedModel model(build_model(shape, at::kFloat, at::kCPU), comm, {}, 3, at::kCPU);
  const auto optimizer = std::make_unique<Optimizer>(options, model);
  const Tensors before = copies(model, &Unit::master);
  std::vector<Tensors> gradients;
  for (int number = 1; number <= 2; ++number) {
    for (const auto& unit : model.units()) at::Tensor(unit->gradient()).normal_();
    gradients.push_back(copies(model, &Unit::gradient));
    const double factor = number == 2 ? 0.25 : 1;
    for (auto& [name, gradient] : gradients.back()) gradient = gradient * factor;
    optimizer->step(number, kLr, factor);
  }
  const Tensors after = copies(model, &Unit::master);
  std::size_t matrices = 0;
  for (const Parameter* parameter : model.model().parameters()) {
    for (const Parameter::Part& part : parameter->parts()) {
      if (!is_of_muon(options, part)) continue;
      const double lr = kLr * (matches("*.1.*", part.name) ? 0.5 : 1);
      const double decay = matches_any(options.no_decay, part.name) ? 0 : kDecay;
      std::int64_t row = 0;
      for (const std::int64_t rows : part.matrices) {
        const auto cut = [&](const Tensors& tensors) { return tensors.at(part.name).narrow(0, row, rows); };
        const at::Tensor right =
            expected(cut(before), {cut(gradients[0]), cut(gradients[1])}, options, lr, decay);
        EXPECT_LT((cut(after) - right).abs().max().item<double>(), 1e-6) << part.name << " from row " << row;
        EXPECT_GT((cut(after) - cut(before)).abs().max().item<double>(), 1e-4) << part.name;
        row += rows;
        ++matrices;
      }
    }
  }
  EXPECT_EQ(matrices, shape.kind == ModelKind::kGpt2 ? 12U : 14U);  // q, k and v apart
}

TEST(Muon, MovesEveryMatrixAlongItsOrthogonalizedMomentum) {
  at::manual_seed(1);
  ModelOptions shape = test::small_options();
  expect_follows(muon({}), shape);
  expect_follows(muon({.momentum = 0.5, .nesterov = false, .ns_steps = 3, .scale = MuonScale::kSpectral}),
                 shape);
  shape.kind = ModelKind::kPhi3;
  expect_follows(muon({}), shape);
  shape.kind = ModelKind::kGpt2;
  shape.kv_heads = shape.heads;
  expect_follows(muon({.scale = MuonScale::kSpectral}), shape);
}

TEST(Muon, LeavesTheRestToAdamW) {
  OptimOptions options{.kind = OptimKind::kMuon, .lr = 0.02};
  options.muon.adamw = {"*.down_proj.*"};
  const test::SmallModel mixed;
  const test::SmallModel adamw;
  const auto of_muon = std::make_unique<Optimizer>(options, mixed.model);
  const auto of_adamw = std::make_unique<Optimizer>(OptimOptions{.lr = 0.02}, adamw.model);
  for (int number = 1; number <= 2; ++number) {
    mixed.fill(mixed.gradients(), str(number));
    adamw.fill(adamw.gradients(), str(number));
    of_muon->step(number, 0.02, 0.5);
    of_adamw->step(number, 0.02, 0.5);
  }
  std::map<std::string, at::Tensor> moved;
  adamw.for_each_piece(adamw.masters(), [&](const SlicePiece& piece, const at::Tensor& values) {
    moved[piece.part->name] = values;
  });
  mixed.for_each_piece(mixed.masters(), [&](const SlicePiece& piece, const at::Tensor& values) {
    EXPECT_EQ(at::allclose(values, moved.at(piece.part->name), 1e-5, 1e-7), !is_of_muon(options, *piece.part))
        << piece.part->name;
  });
}

TEST(Muon, NeedsAMatrixAndPatternsThatMatch) {
  const test::SmallModel small;
  for (const auto& [pattern, text] :
       {std::pair("*_proj.weight", "no matrix is left for it"),
        {"*.qkv.*", "optim.muon.adamw: pattern '*.qkv.*' matches no parameter"}}) {
    OptimOptions options{.kind = OptimKind::kMuon};
    options.muon.adamw = {pattern};
    EXPECT_MENTIONS(
        test::refusal(Code::kUsage, [&] { return std::make_unique<Optimizer>(options, small.model); }), text);
  }
}

}  // namespace
}  // namespace echelon
