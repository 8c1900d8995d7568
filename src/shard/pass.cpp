#include "shard/pass.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace echelon {
namespace {

/// Maximum number of reductions in flight. Each holds the whole gradients of its unit.
constexpr std::size_t kReducesInFlight = 2;

}  // namespace

Pass::Pass(const std::vector<std::unique_ptr<Unit>>& units, const ShardOptions& options,
           const BufferPool& pool, Activity& activity)
    : units_(units),
      roots_(static_cast<std::size_t>(std::count_if(
          units.begin(), units.end(), [](const auto& unit) { return unit->plan().layer == nullptr; }))),
      options_(options),
      pool_(pool),
      activity_(activity),
      frames_(activity) {
  std::vector<std::size_t> inner(units.size() - roots_);
  std::iota(inner.begin(), inner.end(), roots_);
  forward_order_ = PrefetchOrder(std::move(inner));
}

void Pass::require(bool allowed, const char* call) const {
  constexpr const char* kNames[] = {"idle", "evaluating", "forward", "backward"};
  if (!allowed)
    throw Error::internal("a pass: ", call, " while its state is '", kNames[static_cast<std::size_t>(state_)],
                          "'");
}

void Pass::begin(State first, bool training) {
  state_ = first;
  uses_.assign(units_.size(), 0);
  reduced_.assign(units_.size(), false);
  post_forward_.clear();
  prefetch(training);
  for (std::size_t root = 0; root < roots_; ++root) unshard(*units_[root]);
}

void Pass::prefetch(bool training) {
  const HostTime host(times_);
  for (const auto& unit : units_) unit->prepare(training);
  forward_order_.restart();
  for (std::size_t root = 0; root < roots_; ++root) units_[root]->start_unshard();
  if (const auto first = forward_order_.ahead(1)) prefetch_unit(*first);
}

void Pass::prefetch_unit(std::size_t index) {
  Unit& unit = *units_[index];
  if (unit.gathered()) return;
  const std::int64_t cap = options_.max_gathered_bytes;
  if (cap > 0 && pool_.bytes(Use::kGathered).live + unit.gathered_bytes() > cap) return;
  unit.start_unshard();
}

void Pass::prefetch_backward() {
  const auto next = backward_order_.ahead(1);
  if (next && units_[*next]->plan().weights_in_backward) prefetch_unit(*next);
}

void Pass::unshard(Unit& unit) {
  unit.start_unshard();
  const WaitingTime waiting(times_.gather_wait_s, activity_, SpanKind::kGatherWait, unit.name());
  unit.finish_unshard();
}

void Pass::begin_forward(std::size_t index) {
  require(state_ != State::kIdle, "begin_forward()");
  Unit& unit = *units_[index];
  const HostTime host(times_);
  ++times_.passes;
  if (state_ == State::kForward) activity_.enter(Doing::kForward, unit.name());
  frames_.begin(span_of_forward(), unit.name());
  unit.start_unshard();
  // A recomputation runs in the order of backward, so it must not change the recorded order of forward.
  if (state_ != State::kBackward) {
    forward_order_.use(index);
    for (std::int64_t i = 1; i <= options_.forward_prefetch; ++i) {
      if (const auto next = forward_order_.ahead(static_cast<std::size_t>(i))) prefetch_unit(*next);
    }
  }
  unshard(unit);
  // Every run is counted, also those whose end_backward() is never called because no input needs a gradient.
  // Their gradients are complete only at the end of the backward pass; the count then stays above zero, and
  // end() reduces the unit there.
  if (state_ == State::kForward) ++uses_[index];
}

void Pass::end_forward(std::size_t index, bool backward_follows) {
  Unit& unit = *units_[index];
  frames_.end(span_of_forward(), unit.name());
  if (state_ == State::kBackward) return;
  const HostTime host(times_);
  const bool backward = state_ == State::kForward && backward_follows;
  if (backward) post_forward_.push_back(index);
  const bool needed = backward && unit.plan().weights_in_backward;
  // The head's backward follows immediately, so freed weights would have to be gathered again.
  if (!needed || !unit.plan().is_head()) unit.release_after_forward(needed);
}

void Pass::turn() {
  require(state_ == State::kForward, "turn()");
  state_ = State::kBackward;
  // The expected order of backward: units in reverse order of the ends of their forward.
  std::reverse(post_forward_.begin(), post_forward_.end());
  backward_order_ = PrefetchOrder(post_forward_);
}

void Pass::begin_backward(std::size_t index) {
  require(state_ == State::kBackward, "begin_backward()");
  Unit& unit = *units_[index];
  const HostTime host(times_);
  ++times_.passes;
  backward_order_.use(index);
  activity_.enter(Doing::kBackward, unit.name());
  frames_.begin(SpanKind::kBackward, unit.name());
  if (!unit.plan().weights_in_backward) return;
  unit.start_unshard();
  if (options_.backward_prefetch == BackwardPrefetch::kPre) prefetch_backward();
  unshard(unit);
}

void Pass::end_backward(std::size_t index) {
  frames_.end(SpanKind::kBackward, units_[index]->name());
  if (--uses_[index] == 0) reduce(index);
}

void Pass::reduce(std::size_t index) {
  Unit& unit = *units_[index];
  if (unit.trains()) {
    const WaitingTime waiting(times_.reduce_wait_s, activity_, SpanKind::kReduceWait,
                              reducing_.empty() ? std::string_view() : reducing_.front()->name());
    while (reducing_.size() >= kReducesInFlight) {
      reducing_.front()->finish_reduce();
      landing_.push_back(reducing_.front());
      reducing_.pop_front();
    }
    // The copy awaited here was started that many units ago, so the host rarely blocks.
    while (landing_.size() > kReducesInFlight) {
      landing_.front()->land();
      landing_.pop_front();
    }
  }
  const HostTime host(times_);
  unit.start_reduce();
  reduced_[index] = true;
  if (unit.trains()) reducing_.push_back(&unit);
  if (options_.backward_prefetch == BackwardPrefetch::kPost) prefetch_backward();
}

void Pass::end() {
  require(state_ == State::kEvaluating || state_ == State::kBackward, "end()");
  if (state_ == State::kEvaluating) {
    for (std::size_t root = 0; root < roots_; ++root) units_[root]->release_after_forward(false);
  } else {
    frames_.end_all();
    // Units whose input has no gradient (embeddings), and the roots, are complete only now. Unused units are
    // reduced too, so all ranks issue the same operations in the same order.
    for (std::size_t i = units_.size(); i-- > 0;) {
      if (!reduced_[i]) reduce(i);
    }
  }
  state_ = State::kIdle;
}

void Pass::finish_gradients() {
  const WaitingTime waiting(times_.reduce_wait_s, activity_, SpanKind::kReduceWait, "all units");
  for (Unit* unit : reducing_) {
    unit->finish_reduce();
    landing_.push_back(unit);
  }
  reducing_.clear();
  for (Unit* unit : landing_) unit->land();
  landing_.clear();
}

void Pass::begin_recompute() {
  if (const std::string* unit = frames_.innermost()) frames_.begin(SpanKind::kRecompute, *unit);
}

void Pass::end_recompute() {
  if (const std::string* unit = frames_.innermost()) frames_.end(SpanKind::kRecompute, *unit);
}

}  // namespace echelon
