#include "shard/memory/offloaded_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/ops/upload.h"

namespace echelon {

class OffloadedInputs::Input {
 public:
  at::Device device;
  at::Tensor host;                ///< page-locked
  at::Tensor back = {};           ///< undefined until bring()
  CopyStream::Mark arrived = {};  ///< when `back` is complete
};

std::shared_ptr<OffloadedInputs::Input> OffloadedInputs::put(const at::Tensor& x) {
  const auto input =
      std::make_shared<Input>(Input{.device = x.device(), .host = page_locked(x.sizes(), x.scalar_type())});
  const CopyStream::Turn turn(*copies_);
  input->host.copy_(x, /*non_blocking=*/true);
  turn.uses(x);
  // Inputs of a graph that was dropped without a backward.
  std::erase_if(waiting_, [](const auto& other) { return other.expired(); });
  waiting_.push_back(input);
  return input;
}

at::Tensor OffloadedInputs::take(const std::shared_ptr<Input>& input) {
  if (!input->back.defined()) bring(*input);
  std::erase_if(waiting_, [&](const auto& other) { return other.expired() || other.lock() == input; });
  if (!waiting_.empty()) bring(*waiting_.back().lock());
  input->arrived.hold_stream();
  input->host.reset();
  return std::move(input->back);
}

void OffloadedInputs::bring(Input& input) {
  if (input.back.defined()) return;
  // Allocated for the current stream. The copy stream may write to it, because it waits for the work issued
  // to that stream so far.
  input.back = at::empty(input.host.sizes(), input.host.options().device(input.device));
  const CopyStream::Turn turn(*copies_);
  input.back.copy_(input.host, /*non_blocking=*/true);
  input.arrived = turn.mark();
}

}  // namespace echelon
