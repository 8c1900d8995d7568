#include "shard/unit.h"

#include <ATen/ATen.h>

#include "shard/memory/host_memory.h"

namespace echelon {
namespace {

at::TensorOptions state_options(const UnitSetup& setup, at::ScalarType type) {
  // Copies from pageable memory would block the host, so offloaded slices are page-locked.
  const bool pinned = setup.offload && !setup.pool->device().is_cpu();
  return at::TensorOptions()
      .dtype(type)
      .device(setup.offload ? at::Device(at::kCPU) : setup.pool->device())
      .pinned_memory(pinned);
}

/// The setup of one unit, which does not train if all its parameters are frozen.
UnitSetup setup_of(const UnitPlan& plan, UnitSetup setup) {
  setup.trains = setup.trains && plan.trained_numel() > 0;
  return setup;
}

}  // namespace

Unit::Unit(const UnitPlan& plan, const UnitSetup& setup, const at::Tensor& scales)
    : plan_(plan),
      setup_(setup_of(plan, setup)),
      layout_(plan.parameters, setup.groups->shard().size()),
      master_(HostMemory::zeros(layout_.slice_numel(), state_options(setup, plan.master))),
      gradient_(
          HostMemory::zeros(setup_.trains ? layout_.slice_numel() : 0, state_options(setup, at::kFloat))),
      pieces_(layout_.pieces(setup.groups->shard().rank())),
      weights_(plan_, setup_, layout_, master_),
      reduction_(plan_, setup_, layout_, gradient_) {
  if (scales.defined()) {
    slice8_.emplace(layout_, setup.groups->shard().rank(), master_, scales);
    weights8_.emplace(plan_, setup_, layout_, master_, &*slice8_);
  }
  for (std::size_t i = 0; i < layout_.parameters().size(); ++i) attach(i);
}

void Unit::attach(std::size_t i) {
  Parameter& parameter = *layout_.parameters()[i];
  const std::int64_t offset = layout_.offset(i);
  parameter.value = weights_.view(offset, parameter.shape()).requires_grad_(parameter.trained());
  parameter.gradient = reduction_.view(offset, parameter.shape());
  parameter.sink = this;
  if (!weights8_) return;
  parameter.value8 = weights8_->view(offset, parameter.shape());
  parameter.scale8 = slice8_->scale(i);
}

void Unit::prepare(bool training) {
  if (training == trains_now_ || !weights8_) return;
  weights().invalidate();
  trains_now_ = training;
}

bool Unit::measure() {
  if (measured_ || !slice8_) return false;
  slice8_->measure();
  return measured_ = true;
}

void Unit::weights_changed() {
  weights().invalidate();
  measured_ = false;
}

std::int64_t Unit::trained_numel() const {
  std::int64_t total = 0;
  for (const SlicePiece& piece : pieces_) total += piece.part->frozen ? 0 : piece.numel();
  return total;
}

void Unit::initialize(std::uint64_t seed) {
  const bool in_place = master_.is_cpu() && master_.scalar_type() == at::kFloat;
  at::Tensor values = in_place ? master_ : at::zeros({layout_.slice_numel()}, at::kFloat);
  for (const SlicePiece& piece : pieces_) {
    fill_initial(*piece.part, piece.parameter->init(), seed, piece.begin, piece.end - piece.begin,
                 values.mutable_data_ptr<float>() + piece.at);
  }
  if (!in_place) master_.copy_(values);
}

void Unit::release_after_forward(bool backward_follows) {
  if (plan_.weights == Strategy::Weights::kStep) return;
  if (backward_follows && plan_.weights == Strategy::Weights::kPass) return;
  const bool keeps = backward_follows && setup_.groups->keep() != nullptr;
  if (keeps)
    weights().keep_part();
  else
    weights().release();
}

void Unit::start_reduce() {
  const at::NoGradGuard no_grad;
  if (trains()) reduction_.collect_leaves();
  if (plan_.weights != Strategy::Weights::kStep) weights().release();
  if (trains()) reduction_.start();
}

}  // namespace echelon
