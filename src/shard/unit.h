#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "shard/layout.h"
#include "shard/memory/buffer_pool.h"
#include "shard/memory/copy_stream.h"
#include "shard/wrap.h"

namespace echelon {

/// What all units of a model share.
struct UnitSetup {
  const Groups* groups;  ///< outlives the units
  BufferPool* pool;      ///< of the device that computes; outlives the units
  CopyStream* copies;    ///< of that device; outlives the units
  Strategy strategy;
  Precision precision;
  bool reduce_at_end = false;  ///< whole gradients are kept until the last micro-batch of a step
  bool offload = false;        ///< slices live in host memory
  bool trains = true;          ///< false: there are no gradients
};

/// Which of a step's micro-batches a gradient belongs to.
struct MicroBatch {
  bool first = true;  ///< starts a new sum
  bool last = true;   ///< after it the sum is complete
};

/// The parameters gathered and reduced together. The persistent part is this rank's slice of them (master
/// weights, fp32 gradients); the whole weights exist in compute precision only between start_unshard() and
/// reshard(), the whole gradients only from the first open() to finish_reduce(). Every rank makes the same
/// calls in the same order.
class Unit final : public GradientSink {
 public:
  Unit(const UnitPlan& plan, const UnitSetup& setup);
  /// Waits for collectives that still use this unit's memory; their errors have been or will be seen
  /// elsewhere.
  ~Unit() override;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// This rank's slice gets its initial values; nothing else is allocated.
  void initialise(std::uint64_t seed);

  /// Casts the slice straight into its slot of the gathered buffer and starts the all-gather in place. No-op
  /// when gathered already.
  void start_unshard();
  void finish_unshard();
  [[nodiscard]] bool gathered() const { return gathered_.inflated(); }
  /// Forward is over: frees the weights as the strategy says. `backward_follows`: a K-th of them may stay.
  void release_after_forward(bool backward_follows);
  /// Frees the gathered bytes; views stay valid objects.
  void reshard();
  /// The slice has changed: invalidates gathered weights.
  void weights_changed();

  /// Before a micro-batch's forward.
  void begin(MicroBatch batch) { batch_ = batch; }
  void open(Parameter& parameter) override;
  /// Backward of this unit is complete: frees the weights as the strategy says and starts the sum of
  /// gradients over ranks, or over micro-batches.
  void start_reduce();
  void finish_reduce();
  /// Where the slice is in host memory and the device is not: the sum, on its way there since
  /// finish_reduce(), is in gradient(). Waits for it.
  void land();

  [[nodiscard]] const UnitPlan& plan() const { return plan_; }
  [[nodiscard]] const std::string& name() const { return plan_.name; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<SlicePiece>& pieces() const { return pieces_; }
  [[nodiscard]] const at::Tensor& master() const { return master_; }  ///< [slice_numel], fp32 or bf16
  /// fp32 [slice_numel]; empty where nothing is trained
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  [[nodiscard]] std::int64_t gathered_bytes() const { return gathered_.bytes(); }

 private:
  /// With one rank a shard group and no cast, the slice is the whole.
  [[nodiscard]] bool whole_slice(at::ScalarType stored) const;
  void attach(Parameter& parameter, std::int64_t offset);
  void collect_leaf_gradients();
  void sum_on_this_rank();
  /// Starts the reduction of `whole` (its type is that of the bytes that travel) into the slice's gradient.
  void send(ElasticTensor& whole, bool accumulate);
  void start_landing();
  void take_in(const at::Tensor& sum);

  UnitPlan plan_;
  UnitSetup setup_;
  Communicator* shard_;
  FlatLayout layout_;
  at::Tensor master_;
  at::Tensor gradient_;
  std::vector<SlicePiece> pieces_;
  ElasticTensor gathered_;
  ElasticTensor outgoing_;     ///< whole gradients, compute precision
  ElasticTensor sum_;          ///< whole gradients of several micro-batches, fp32
  ElasticTensor wire_;         ///< whole gradients in the precision that travels, where it is another
  ElasticTensor kept_;         ///< the part of the gathered weights that stays between forward and backward
  ElasticTensor arrived_;      ///< this slice's sum, on the device, where the slice is on the host
  bool collecting_ = false;    ///< gradients are being written to outgoing_
  bool accumulating_ = false;  ///< what arrives is added to the gradient
  bool sum_sent_ = false;      ///< sum_ is on its way out
  MicroBatch batch_;
  at::Tensor landing_;  ///< where arrived_ is being copied to; undefined: it is not
  CopyStream::Mark landed_;
  Pending unsharding_;
  Pending reducing_;
  Pending replicating_;
};

}  // namespace echelon
