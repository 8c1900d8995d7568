#include "shard/unit.h"

#include <ATen/ATen.h>

#include <optional>

#include "base/error.h"
#include "model/kernels/kernels.h"
#include "model/ops/device_kernels.h"
#include "model/ops/upload.h"
#include "shard/memory/host_memory.h"

namespace echelon {
namespace {

template <class T>
void round_to(const at::Tensor& from, const at::Tensor& to) {
  kernels::kernels<T>().from_float(from.const_data_ptr<float>(), static_cast<T*>(to.mutable_data_ptr()),
                                   from.numel());
}

/// One pass from the slice to its place in the gathered buffer, whatever the two types and devices.
void cast_into(const at::Tensor& slice, const at::Tensor& slot) {
  const auto* device = slice.device() == slot.device() ? ops::device_kernels(slice) : nullptr;
  const bool ours = slice.is_cpu() && slot.is_cpu() && slice.scalar_type() == at::kFloat;
  if (device != nullptr && slice.scalar_type() == at::kFloat) {
    device->cast(slice, slot);
  } else if (ours && slot.scalar_type() == at::kBFloat16) {
    round_to<kernels::Bf16>(slice, slot);
  } else if (ours && slot.scalar_type() == at::kHalf) {
    round_to<kernels::Fp16>(slice, slot);
  } else if (slice.device() != slot.device() && slice.scalar_type() != slot.scalar_type()) {
    // Cast first: fewer bytes cross the bus.
    const at::Tensor sent = page_locked(slice.sizes(), slot.scalar_type());
    cast_into(slice, sent);
    slot.copy_(sent, true);
  } else if (slice.device() != slot.device()) {
    slot.copy_(slice, true);
  } else {
    slot.copy_(slice);
  }
}

at::TensorOptions state_options(const UnitSetup& setup, at::ScalarType type) {
  const bool pinned = setup.offload && !setup.pool->device().is_cpu();
  return at::TensorOptions()
      .dtype(type)
      .device(setup.offload ? at::Device(at::kCPU) : setup.pool->device())
      .pinned_memory(pinned);
}

/// A narrower type loses nothing on the way when sums are made in fp32, so only a wider one is cast.
at::ScalarType wire_type(at::ScalarType from, at::ScalarType reduce) {
  return c10::elementSize(reduce) < c10::elementSize(from) ? reduce : from;
}

}  // namespace

Unit::Unit(const UnitPlan& plan, const UnitSetup& setup)
    : plan_(plan),
      setup_(setup),
      shard_(&setup.groups->shard()),
      layout_(plan.parameters, shard_->size()),
      master_(HostMemory::zeros(layout_.slice_numel(), state_options(setup, setup.precision.master))),
      gradient_(
          HostMemory::zeros(setup.trains ? layout_.slice_numel() : 0, state_options(setup, at::kFloat))),
      pieces_(layout_.pieces(shard_->rank())),
      gathered_(whole_slice(setup.precision.master)
                    ? ElasticTensor(master_)
                    : ElasticTensor(*setup.pool, layout_.padded_numel(), plan.compute, Use::kGathered)),
      outgoing_(setup.trains && whole_slice(at::kFloat)
                    ? ElasticTensor(gradient_)
                    : ElasticTensor(*setup.pool, layout_.padded_numel(), plan.compute, Use::kGradients)),
      sum_(*setup.pool, layout_.padded_numel(), at::kFloat, Use::kGradients),
      wire_(*setup.pool, layout_.padded_numel(), setup.precision.reduce, Use::kStaging),
      kept_(*setup.pool, layout_.padded_numel() / setup.strategy.keep_ranks, plan.compute, Use::kStaging),
      arrived_(*setup.pool, layout_.slice_numel(), at::kFloat, Use::kStaging) {
  for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
    attach(*layout_.parameters()[i], layout_.offset(i));
  }
}

bool Unit::whole_slice(at::ScalarType stored) const {
  return shard_->size() == 1 && stored == plan_.compute && master_.device() == setup_.pool->device();
}

void Unit::attach(Parameter& parameter, std::int64_t offset) {
  parameter.value = gathered_.view(offset, parameter.shape()).requires_grad_(true);
  parameter.gradient = outgoing_.view(offset, parameter.shape());
  parameter.sink = this;
}

Unit::~Unit() {
  const auto finished = [](const auto& wait) {
    try {
      wait();
    } catch (...) {
      // Communication has failed, so nothing uses the memory any more; whoever caused this destruction
      // reports it.
    }
  };
  for (Pending* pending : {&unsharding_, &reducing_, &replicating_}) finished([&] { pending->wait(); });
  if (landing_.defined()) finished([&] { landed_.hold_host(); });
}

void Unit::initialise(std::uint64_t seed) {
  const bool in_place = master_.is_cpu() && master_.scalar_type() == at::kFloat;
  at::Tensor values = in_place ? master_ : at::zeros({layout_.slice_numel()}, at::kFloat);
  for (const SlicePiece& piece : pieces_) {
    fill_initial(*piece.part, piece.parameter->init(), seed, piece.begin, piece.end - piece.begin,
                 values.mutable_data_ptr<float>() + piece.at);
  }
  if (!in_place) master_.copy_(values);
}

void Unit::start_unshard() {
  if (gathered_.inflated()) return;
  gathered_.inflate();
  // The gather starts behind the copy out of host memory, so that who waits for it has waited for both.
  std::optional<CopyStream::Turn> turn;
  if (setup_.offload && !kept_.inflated()) turn.emplace(*setup_.copies);
  Communicator* group = shard_;
  std::int64_t share = layout_.slice_numel();
  if (kept_.inflated()) {
    group = setup_.groups->keep();
    share = layout_.padded_numel() / group->size();
    gathered_.view(group->rank() * share, {share}).copy_(kept_.tensor());
    kept_.deflate();
  } else {
    cast_into(master_, gathered_.view(group->rank() * share, {share}));
  }
  unsharding_ =
      group->all_gather(gathered_.data(), static_cast<std::size_t>(share), dtype_of(plan_.compute), name());
}

void Unit::finish_unshard() {
  unsharding_.wait();
}

void Unit::release_after_forward(bool backward_follows) {
  if (plan_.weights == Strategy::Weights::kStep) return;
  if (backward_follows && plan_.weights == Strategy::Weights::kPass) return;
  Communicator* keep = setup_.groups->keep();
  if (backward_follows && keep != nullptr) {
    finish_unshard();
    kept_.inflate();
    const std::int64_t share = layout_.padded_numel() / keep->size();
    kept_.view(0, {share}).copy_(gathered_.view(keep->rank() * share, {share}));
  }
  reshard();
}

void Unit::reshard() {
  finish_unshard();
  gathered_.deflate();
}

void Unit::weights_changed() {
  kept_.deflate();
  reshard();
}

void Unit::open(Parameter& /*parameter*/) {
  if (collecting_) return;
  finish_reduce();  // the sum of the micro-batch before may still be on its way out
  land();
  collecting_ = true;
  if (outgoing_.fixed()) {
    // Gradients are written where they stay: further micro-batches add to what is there.
    for (Parameter* parameter : layout_.parameters()) parameter->deposited = !batch_.first;
    return;
  }
  outgoing_.inflate();
  const std::int64_t padding = layout_.padded_numel() - layout_.numel();
  outgoing_.view(layout_.numel(), {padding}).zero_();
}

void Unit::collect_leaf_gradients() {
  const at::NoGradGuard no_grad;
  for (Parameter* parameter : layout_.parameters()) {
    at::Tensor& leaf = parameter->value.mutable_grad();
    open(*parameter);
    if (leaf.defined()) {
      if (parameter->deposited) {
        parameter->gradient.add_(leaf);
      } else {
        parameter->gradient.copy_(leaf);
      }
      leaf = at::Tensor();
    } else if (!parameter->deposited) {
      parameter->gradient.zero_();  // not used in this micro-batch
    }
    parameter->deposited = false;
  }
}

void Unit::sum_on_this_rank() {
  if (!sum_.inflated()) {
    sum_.inflate();
    sum_.view(0, {layout_.padded_numel()}).copy_(outgoing_.tensor());
  } else {
    sum_.view(0, {layout_.padded_numel()}).add_(outgoing_.tensor());
  }
  outgoing_.deflate();
}

void Unit::send(ElasticTensor& whole, bool accumulate) {
  ElasticTensor* sent = &whole;
  const at::ScalarType type = wire_type(whole.tensor().scalar_type(), setup_.precision.reduce);
  if (type != whole.tensor().scalar_type()) {
    wire_.inflate();
    cast_into(whole.tensor(), wire_.tensor());
    whole.deflate();
    sent = &wire_;
  }
  accumulating_ = accumulate;
  if (setup_.offload) arrived_.inflate();
  float* target = setup_.offload ? static_cast<float*>(arrived_.data()) : gradient_.mutable_data_ptr<float>();
  reducing_ = shard_->reduce_scatter(sent->data(), dtype_of(type), target,
                                     static_cast<std::size_t>(layout_.slice_numel()), 1.0F,
                                     accumulate && !setup_.offload, name());
}

void Unit::start_reduce() {
  const at::NoGradGuard no_grad;
  collect_leaf_gradients();
  if (plan_.weights != Strategy::Weights::kStep) reshard();
  collecting_ = false;
  if (outgoing_.fixed()) {
    accumulating_ = false;
  } else if (!setup_.reduce_at_end || (batch_.first && batch_.last)) {
    send(outgoing_, !batch_.first);
  } else {
    sum_on_this_rank();
    if (!batch_.last) return;
    sum_sent_ = true;
    send(sum_, false);
  }
  Communicator* copies = setup_.groups->replicate();
  // What arrives on the device and is added on the host must be the sum over the copies already.
  const bool arrives = arrived_.inflated();
  if (copies == nullptr || !(batch_.last || arrives)) return;
  float* mine = arrives ? static_cast<float*>(arrived_.data()) : gradient_.mutable_data_ptr<float>();
  replicating_ = copies->all_reduce(mine, static_cast<std::size_t>(layout_.slice_numel()), DType::kF32,
                                    ReduceOp::kSum, name());
}

void Unit::finish_reduce() {
  reducing_.wait();
  replicating_.wait();
  if (arrived_.inflated() && !landing_.defined()) start_landing();
  wire_.deflate();
  if (sum_sent_) sum_.deflate();
  sum_sent_ = false;
  if (!collecting_) outgoing_.deflate();
}

void Unit::start_landing() {
  const at::Tensor& sum = arrived_.tensor();
  if (sum.is_cpu()) return take_in(sum);
  landing_ = accumulating_ ? page_locked(gradient_.sizes(), gradient_.scalar_type()) : gradient_;
  const CopyStream::Turn turn(*setup_.copies);
  landing_.copy_(sum, true);
  landed_ = turn.mark();
}

void Unit::land() {
  if (!landing_.defined()) return;
  landed_.hold_host();
  take_in(landing_);
  landing_.reset();
}

void Unit::take_in(const at::Tensor& sum) {
  at::Tensor gradient = gradient_;
  if (accumulating_) {
    gradient.add_(sum);
  } else if (!sum.is_same(gradient)) {
    gradient.copy_(sum);
  }
  arrived_.deflate();
}

}  // namespace echelon
