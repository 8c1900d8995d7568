#include "shard/gradient_reduction.h"

#include <ATen/ATen.h>

#include "model/ops/upload.h"
#include "shard/memory/cast.h"

namespace echelon {
namespace {

/// Gradients are only ever narrowed. Receivers sum in fp32, so widening before sending would add bytes but no
/// precision.
at::ScalarType wire_type(at::ScalarType from, at::ScalarType reduce) {
  return c10::elementSize(reduce) < c10::elementSize(from) ? reduce : from;
}

/// After a communication error nothing uses the memory any longer, and the handler of the error that led to
/// this destruction reports it.
template <class Wait>
void wait_quietly(const Wait& wait) {
  try {
    wait();
  } catch (...) {
  }
}

/// Zeroes the gradients of frozen parts in stacked parameters of which other parts are trained.
void zero_frozen_rows(const Parameter& parameter) {
  std::int64_t row = 0;
  for (const Parameter::Part& part : parameter.parts()) {
    if (part.frozen && parameter.trained()) parameter.gradient.narrow(0, row, part.shape[0]).zero_();
    row += part.shape[0];
  }
}

}  // namespace

GradientReduction::GradientReduction(const UnitPlan& plan, const UnitSetup& setup, const FlatLayout& layout,
                                     const at::Tensor& slice)
    : plan_(plan),
      setup_(setup),
      layout_(layout),
      slice_(slice),
      whole_(setup.trains && is_whole(slice, plan.compute, setup)
                 ? ElasticTensor(slice)
                 : ElasticTensor(*setup.pool, layout.padded_numel(), plan.compute, Use::kGradients)),
      held_(*setup.pool, layout.padded_numel(), at::kFloat, Use::kGradients),
      wire_(*setup.pool, layout.padded_numel(), setup.precision.reduce, Use::kStaging),
      arrived_(*setup.pool, layout.slice_numel(), at::kFloat, Use::kStaging) {}

GradientReduction::~GradientReduction() {
  wait_quietly([this] { reducing_.wait(); });
  wait_quietly([this] { replicating_.wait(); });
  if (state_ == State::kLanding) wait_quietly([this] { landed_.hold_host(); });
}

void GradientReduction::refuse(const char* call) const {
  constexpr const char* kNames[] = {"idle", "collecting", "held", "reducing", "landing", "arrived"};
  refuse_call(plan_.name, call, kNames[static_cast<std::size_t>(state_)]);
}

void GradientReduction::begin(MicroBatch batch) {
  if (state_ == State::kCollecting) refuse("begin()");
  batch_ = batch;
}

void GradientReduction::open() {
  if (state_ == State::kCollecting) return;
  finish();  // the previous micro-batch's gradients may still be in the buffer
  land();
  state_ = State::kCollecting;
  if (whole_.fixed()) {
    // Backward writes directly into the slice, so later micro-batches must add to it.
    for (Parameter* parameter : layout_.parameters()) parameter->deposited = !batch_.first;
    return;
  }
  whole_.inflate();
  // Pool memory is not cleared. The padding is reduced with the rest, and no parameter writes to it.
  const std::int64_t padding = layout_.padded_numel() - layout_.numel();
  whole_.view(layout_.numel(), {padding}).zero_();
}

void GradientReduction::collect_leaves() {
  open();
  for (Parameter* parameter : layout_.parameters()) {
    at::Tensor& leaf = parameter->value.mutable_grad();
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
    zero_frozen_rows(*parameter);
    parameter->deposited = false;
  }
}

void GradientReduction::hold() {
  const bool first = !held_.inflated();
  held_.inflate();
  const at::Tensor held = held_.view(0, {layout_.padded_numel()});
  if (first)
    held.copy_(whole_.tensor());
  else
    held.add_(whole_.tensor());
  whole_.deflate();
}

void GradientReduction::send(ElasticTensor& whole, bool accumulate) {
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
  float* target = setup_.offload ? static_cast<float*>(arrived_.data()) : slice_.mutable_data_ptr<float>();
  reducing_ = setup_.groups->shard().reduce_scatter(sent->data(), dtype_of(type), target,
                                                    static_cast<std::size_t>(layout_.slice_numel()), 1.0F,
                                                    accumulate && !setup_.offload, plan_.name);
}

void GradientReduction::start() {
  if (state_ != State::kCollecting) refuse("start()");
  if (whole_.fixed()) {
    accumulating_ = false;
  } else if (!setup_.reduce_at_end || (batch_.first && batch_.last)) {
    send(whole_, !batch_.first);
  } else {
    hold();
    state_ = State::kHeld;
    if (!batch_.last) return;
    send(held_, false);
  }
  state_ = State::kReducing;
  Communicator* copies = setup_.groups->replicate();
  // With offload, the device buffer is added to the slice on the host after each micro-batch. It must
  // therefore already be summed over the replicas. Otherwise the slice accumulates, and one all-reduce at the
  // last micro-batch is enough. Groups split from one communicator share its queue, so the all-reduce runs
  // after the reduce-scatter.
  const bool arrives = arrived_.inflated();
  if (copies == nullptr || !(batch_.last || arrives)) return;
  float* mine = arrives ? static_cast<float*>(arrived_.data()) : slice_.mutable_data_ptr<float>();
  replicating_ = copies->all_reduce(mine, static_cast<std::size_t>(layout_.slice_numel()), DType::kF32,
                                    ReduceOp::kSum, plan_.name);
}

void GradientReduction::finish() {
  if (state_ != State::kReducing) return;
  reducing_.wait();
  replicating_.wait();
  state_ = State::kArrived;
  if (arrived_.inflated()) start_landing();
  wire_.deflate();
  held_.deflate();
  whole_.deflate();
}

void GradientReduction::start_landing() {
  const at::Tensor& sum = arrived_.tensor();
  if (sum.is_cpu()) return take_in(sum);
  // The slice may only be added to, so the copy needs a place of its own; otherwise it goes to the slice
  // itself.
  landing_ = accumulating_ ? page_locked(slice_.sizes(), slice_.scalar_type()) : slice_;
  const CopyStream::Turn turn(*setup_.copies);
  landing_.copy_(sum, true);
  landed_ = turn.mark();
  state_ = State::kLanding;
}

void GradientReduction::land() {
  if (state_ != State::kLanding) return;
  landed_.hold_host();
  take_in(landing_);
  landing_.reset();
  state_ = State::kArrived;
}

void GradientReduction::take_in(const at::Tensor& sum) {
  if (accumulating_) {
    slice_.add_(sum);
  } else if (!sum.is_same(slice_)) {
    slice_.copy_(sum);
  }
  arrived_.deflate();
}

}  // namespace echelon
