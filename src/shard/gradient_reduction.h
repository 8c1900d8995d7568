#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "shard/layout.h"
#include "shard/unit_setup.h"
#include "shard/wrap.h"

namespace echelon {

/// Which of a step's micro-batches a gradient belongs to.
struct MicroBatch {
  bool first = true;  ///< starts a new sum
  bool last = true;   ///< after it the sum is complete
};

/// The gradients of one unit on their way from backward, which writes whole ones in compute precision, to the
/// sum over ranks in this rank's slice.
///
///   kIdle ----> open() ----> kCollecting ----> start() --+--> kReducing ----> finish() --+--> kArrived
///                                ^                       |                               |        ^
///                                |                       +--> kHeld                      +--> kLanding
///                                |                                                          land()
///                                +---- open(), from every other state: after finish() and land()
///
/// kHeld: where whole gradients are reduced with the last micro-batch of a step, those before it are summed
/// on this rank. kLanding: where slices are in host memory and the device is not. finish() changes nothing
/// but in kReducing, and land() nothing but in kLanding: open() may have done their work. begin() in
/// kCollecting and start() in any other state are refused: Error(kTraining), a fault of this program. Every
/// rank makes the same calls in the same order.
class GradientReduction {
 public:
  enum class State : std::uint8_t {
    kIdle,        ///< nothing has been computed yet
    kCollecting,  ///< backward writes whole gradients
    kHeld,        ///< the sum of the step's micro-batches so far waits on this rank for the last one
    kReducing,    ///< the sum over ranks is under way
    kLanding,     ///< and from the device to the slice in host memory
    kArrived,     ///< the slice has it
  };

  /// All outlive this object. `slice`: this rank's gradient, fp32; empty where nothing is trained.
  GradientReduction(const UnitPlan& plan, const UnitSetup& setup, const FlatLayout& layout,
                    const at::Tensor& slice);
  /// Waits for what still uses the memory; its errors have been or will be seen elsewhere.
  ~GradientReduction();
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  /// Before a micro-batch's forward.
  void begin(MicroBatch batch);
  /// Whole gradients may be written from here on; no-op after the first call of a micro-batch.
  void open();
  /// Backward is complete: takes in what autograd has left at the leaves, and zeros for the rest.
  void collect_leaves();
  /// Starts the sum over ranks, or adds to that of earlier micro-batches.
  void start();
  void finish();
  void land();

  [[nodiscard]] State state() const { return state_; }
  /// Of the whole gradients; writable in kCollecting.
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const {
    return whole_.view(offset, shape);
  }

 private:
  [[noreturn]] void refuse(const char* call) const;
  void hold();
  /// Starts the reduction of `whole` (its type is that of the bytes that travel) into the slice.
  void send(ElasticTensor& whole, bool accumulate);
  void start_landing();
  void take_in(const at::Tensor& sum);

  const UnitPlan& plan_;
  const UnitSetup& setup_;
  const FlatLayout& layout_;
  at::Tensor slice_;
  ElasticTensor whole_;        ///< of one micro-batch, compute precision
  ElasticTensor held_;         ///< of several micro-batches, fp32
  ElasticTensor wire_;         ///< in the precision that travels, where it is another
  ElasticTensor arrived_;      ///< the slice's sum, on the device, where the slice is on the host
  bool accumulating_ = false;  ///< what arrives is added to the slice
  MicroBatch batch_;
  State state_ = State::kIdle;
  Pending reducing_;
  Pending replicating_;
  at::Tensor landing_;  ///< of kLanding: where arrived_ is being copied to
  CopyStream::Mark landed_;
};

}  // namespace echelon
