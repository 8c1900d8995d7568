#include "shard/gathered_weights.h"

#include <ATen/ATen.h>

#include <optional>

#include "model/ops/products/fp8_matrix.h"
#include "shard/memory/cast.h"

namespace echelon {
namespace {

at::ScalarType type_of(const UnitPlan& plan, const Fp8Slice* fp8) {
  return fp8 != nullptr ? ops::kFp8Values : plan.compute;
}

}  // namespace

GatheredWeights::GatheredWeights(const UnitPlan& plan, const UnitSetup& setup, const FlatLayout& layout,
                                 const at::Tensor& slice, const Fp8Slice* fp8)
    : plan_(plan),
      setup_(setup),
      layout_(layout),
      slice_(slice),
      fp8_(fp8),
      whole_(is_whole(slice, type_of(plan, fp8), setup)
                 ? ElasticTensor(slice)
                 : ElasticTensor(*setup.pool, layout.padded_numel(), type_of(plan, fp8), Use::kGathered)),
      part_(*setup.pool, layout.padded_numel() / setup.strategy.keep_ranks, type_of(plan, fp8),
            Use::kStaging),
      state_(whole_.fixed() ? State::kGathered : State::kSharded) {}

GatheredWeights::~GatheredWeights() {
  try {
    gathering_.wait();
  } catch (...) {
    // Communication has failed, so nothing uses the memory any longer. The error that led to this destruction
    // is reported by its handler.
  }
}

void GatheredWeights::refuse(const char* call) const {
  constexpr const char* kNames[] = {"sharded", "gathering", "gathered", "partly kept"};
  refuse_call(plan_.name, call, kNames[static_cast<std::size_t>(state_)]);
}

void GatheredWeights::start() {
  if (in_memory()) return;
  whole_.inflate();
  // The gather is issued on the copy stream, after the copy from host memory. Waiting for the gather then
  // covers both.
  std::optional<CopyStream::Turn> turn;
  if (setup_.offload && state_ == State::kSharded) turn.emplace(*setup_.copies);
  Communicator* group = &setup_.groups->shard();
  std::int64_t share = layout_.slice_numel();
  if (state_ == State::kPartlyKept) {
    group = setup_.groups->keep();
    share = layout_.padded_numel() / group->size();
    whole_.view(group->rank() * share, {share}).copy_(part_.tensor());
    part_.deflate();
  } else {
    const at::Tensor slot = whole_.view(group->rank() * share, {share});
    fp8_ != nullptr ? fp8_->cast_to(slot) : cast_into(slice_, slot);
  }
  const DType type = fp8_ != nullptr ? DType::kU8 : dtype_of(plan_.compute);
  gathering_ = group->all_gather(whole_.data(), static_cast<std::size_t>(share), type, plan_.name);
  state_ = State::kGathering;
}

void GatheredWeights::finish() {
  if (!in_memory()) refuse("finish()");
  gathering_.wait();
  state_ = State::kGathered;
}

void GatheredWeights::release() {
  if (!in_memory() || whole_.fixed()) return;
  finish();
  whole_.deflate();
  state_ = State::kSharded;
}

void GatheredWeights::keep_part() {
  if (!in_memory() || whole_.fixed()) refuse("keep_part()");
  finish();
  const Communicator& keep = *setup_.groups->keep();
  part_.inflate();
  const std::int64_t share = layout_.padded_numel() / keep.size();
  part_.view(0, {share}).copy_(whole_.view(keep.rank() * share, {share}));
  release();
  state_ = State::kPartlyKept;
}

void GatheredWeights::invalidate() {
  if (state_ == State::kPartlyKept) {
    part_.deflate();
    state_ = State::kSharded;
  }
  release();
}

}  // namespace echelon
