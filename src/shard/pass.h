#pragma once
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "shard/memory/buffer_pool.h"
#include "shard/options.h"
#include "shard/prefetch_order.h"
#include "shard/unit.h"
#include "shard/unit_frames.h"
#include "shard/unit_times.h"

namespace echelon {

/// A pass of a model over its units: forward alone, or forward and backward of a micro-batch. Gathers each
/// unit's weights in time, prefetches the next ones in the order of the pass before, frees weights, and
/// starts the reduction of gradients. One object serves all passes of a model, one at a time.
///
///   state       | begin() | begin_forward() | turn()    | begin_backward() | end()
///   kIdle       | `first` | refused         | refused   | refused          | refused
///   kEvaluating | `first` | -               | refused   | refused          | kIdle
///   kForward    | `first` | -               | kBackward | refused          | refused
///   kBackward   | `first` | -               | refused   | -                | kIdle
///
/// "-": the state stays. "refused": throws Error, a bug in the caller. A forward in kBackward is a
/// recomputation. begin() is always allowed, because an error may have ended the pass before. Not
/// thread-safe. Every rank must make the same calls in the same order.
class Pass {
 public:
  enum class State : std::uint8_t { kIdle, kEvaluating, kForward, kBackward };

  /// `units`: all of them, outer before inner, in forward order. All references must outlive this object.
  Pass(const std::vector<std::unique_ptr<Unit>>& units, const ShardOptions& options, const BufferPool& pool,
       Activity& activity);

  /// Starts to gather the first units. Optional before begin(), to overlap it with other work.
  void prefetch(bool training = true);
  /// `first`: kEvaluating, or kForward of a pass that has a backward. `training`: Batch::training.
  void begin(State first, bool training = false);
  void begin_forward(std::size_t unit);
  /// `backward_follows`: the output of the unit has a gradient.
  void end_forward(std::size_t unit, bool backward_follows);
  /// The loss is computed, and its backward begins.
  void turn();
  void begin_backward(std::size_t unit);
  void end_backward(std::size_t unit);
  /// Frees the roots, or starts the reductions that no end_backward() has started.
  void end();
  /// Waits until every unit's gradient() is complete.
  void finish_gradients();

  /// Returns compute(), which is a pass without gradients.
  template <class F>
  auto evaluate(const F& compute) {
    const at::NoGradGuard no_grad;
    begin(State::kEvaluating);
    auto result = compute();
    end();
    return result;
  }

  /// Around the forward of a recomputation, for a profile.
  void begin_recompute();
  void end_recompute();

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const UnitTimes& times() const { return times_; }

 private:
  void require(bool allowed, const char* call) const;
  void prefetch_unit(std::size_t unit);  ///< unless it would exceed shard.max_gathered_bytes
  void prefetch_backward();
  void unshard(Unit& unit);
  void reduce(std::size_t unit);
  [[nodiscard]] SpanKind span_of_forward() const {
    return state_ == State::kBackward ? SpanKind::kRecompute : SpanKind::kForward;
  }

  const std::vector<std::unique_ptr<Unit>>& units_;
  std::size_t roots_;  ///< number of units that are gathered for the whole pass, the first ones
  ShardOptions options_;
  const BufferPool& pool_;
  Activity& activity_;
  UnitFrames frames_;
  State state_ = State::kIdle;
  PrefetchOrder forward_order_;
  PrefetchOrder backward_order_;
  std::vector<std::size_t> post_forward_;  ///< units in the order in which their forward ended
  std::vector<int> uses_;                  ///< by unit: forward runs minus completed backward runs
  std::vector<bool> reduced_;              ///< by unit: its reduction of this micro-batch has started
  std::deque<Unit*> reducing_;             ///< reductions in flight, oldest first
  std::deque<Unit*> landing_;              ///< copies to host memory in flight, oldest first
  UnitTimes times_;
};

}  // namespace echelon
