#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/not_copied.h"
#include "comm/communicator.h"
#include "shard/layout.h"
#include "shard/unit_setup.h"
#include "shard/wrap.h"

namespace echelon {

/// The micro-batch of a step that a gradient belongs to.
struct MicroBatch {
  bool first = true;  ///< starts a new sum
  bool last = true;   ///< completes the sum
};

/// The gradients of one unit, from backward to this rank's slice. Backward writes whole gradients in compute
/// precision; the slice receives their sum over ranks, in fp32.
///
///   kIdle ----> open() ----> kCollecting ----> start() --+--> kReducing ----> finish() --+--> kArrived
///                                ^                       |                               |        ^
///                                |                       +--> kHeld                      +--> kLanding
///                                |                                                          land()
///                                +---- open(), from every other state: after finish() and land()
///
/// kHeld occurs only if gradients are reduced with the last micro-batch of a step: earlier micro-batches are
/// summed on this rank. kLanding occurs only if a GPU computes and slices are in host memory (offload).
/// finish() acts only in kReducing and land() only in kLanding; elsewhere they do nothing, because open() may
/// already have called them. begin() in kCollecting, and start() in any other state, throw Error(kTraining):
/// a bug in the caller. Not thread-safe. Every rank must make the same calls in the same order.
class GradientReduction : NotCopied {
 public:
  enum class State : std::uint8_t {
    kIdle,        ///< nothing has been computed yet
    kCollecting,  ///< backward writes whole gradients
    kHeld,        ///< the sum of the micro-batches so far stays on this rank until the last one
    kReducing,    ///< the reduction over ranks is in progress
    kLanding,     ///< the result is being copied from the device to host memory
    kArrived,     ///< the slice holds the result
  };

  /// All arguments must outlive this object. `slice`: this rank's gradient, fp32 [slice_numel]; empty without
  /// training.
  GradientReduction(const UnitPlan& plan, const UnitSetup& setup, const FlatLayout& layout,
                    const at::Tensor& slice);
  /// Waits for operations that still use the memory and ignores their errors, which are reported elsewhere.
  ~GradientReduction();

  /// Called before a micro-batch's forward.
  void begin(MicroBatch batch);
  /// After this call, whole gradients may be written. Waits for the previous reduction. Does nothing in
  /// kCollecting.
  void open();
  /// Called when backward is complete: adds the gradients that autograd left at the leaves, and zeroes those
  /// of parameters that were not used or are frozen.
  void collect_leaves();
  /// Starts the reduction over ranks, or adds to the sum that is held until the last micro-batch.
  void start();
  /// Waits for the reduction; with offload, starts the copy to host memory.
  void finish();
  /// Waits, on the host, for the copy to host memory.
  void land();

  [[nodiscard]] State state() const { return state_; }
  /// View of the whole gradients; `offset` and `shape` in elements. May be written in kCollecting.
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const {
    return whole_.view(offset, shape);
  }

 private:
  [[noreturn]] void refuse(const char* call) const;
  void hold();
  /// Starts the reduce-scatter of `whole` into the slice, after a cast if the reduce type is narrower.
  void send(ElasticTensor& whole, bool accumulate);
  void start_landing();
  void take_in(const at::Tensor& sum);

  const UnitPlan& plan_;
  const UnitSetup& setup_;
  const FlatLayout& layout_;
  at::Tensor slice_;
  ElasticTensor whole_;        ///< one micro-batch, compute precision
  ElasticTensor held_;         ///< sum of several micro-batches, fp32
  ElasticTensor wire_;         ///< send buffer, if the reduce type differs from that of the gradients
  ElasticTensor arrived_;      ///< the reduced slice before it is copied or added to a slice in host memory
  bool accumulating_ = false;  ///< the result is added to the slice, not copied over it
  MicroBatch batch_;
  State state_ = State::kIdle;
  Pending reducing_;
  Pending replicating_;
  at::Tensor landing_;  ///< in kLanding: destination of the copy of arrived_
  CopyStream::Mark landed_;
};

}  // namespace echelon
