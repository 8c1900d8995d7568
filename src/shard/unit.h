#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "shard/gathered_weights.h"
#include "shard/gradient_reduction.h"
#include "shard/layout.h"
#include "shard/unit_setup.h"
#include "shard/wrap.h"

namespace echelon {

/// The parameters gathered and reduced together. The persistent part is this rank's slice of them (master
/// weights, fp32 gradients); the whole weights exist in compute precision only between start_unshard() and
/// their release (GatheredWeights), the whole gradients only from the first open() to finish_reduce()
/// (GradientReduction). Every rank makes the same calls in the same order.
class Unit final : public GradientSink {
 public:
  Unit(const UnitPlan& plan, const UnitSetup& setup);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// This rank's slice gets its initial values; nothing else is allocated.
  void initialise(std::uint64_t seed);

  void start_unshard() { weights_.start(); }
  void finish_unshard() { weights_.finish(); }
  [[nodiscard]] bool gathered() const { return weights_.in_memory(); }
  /// Forward is over: frees the weights as the strategy says. `backward_follows`: a K-th of them may stay.
  void release_after_forward(bool backward_follows);
  /// The slice has changed: invalidates gathered weights.
  void weights_changed() { weights_.invalidate(); }

  /// Before a micro-batch's forward.
  void begin(MicroBatch batch) { reduction_.begin(batch); }
  void open(Parameter& /*parameter*/) override { reduction_.open(); }
  /// Backward of this unit is complete: frees the weights as the strategy says and starts the sum of
  /// gradients over ranks, or over micro-batches.
  void start_reduce();
  void finish_reduce() { reduction_.finish(); }
  /// Where the slice is in host memory and the device is not: the sum, on its way there since
  /// finish_reduce(), is in gradient(). Waits for it.
  void land() { reduction_.land(); }

  [[nodiscard]] const UnitPlan& plan() const { return plan_; }
  [[nodiscard]] const std::string& name() const { return plan_.name; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<SlicePiece>& pieces() const { return pieces_; }
  [[nodiscard]] const at::Tensor& master() const { return master_; }  ///< [slice_numel], fp32 or bf16
  /// fp32 [slice_numel]; empty where nothing is trained
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  [[nodiscard]] std::int64_t gathered_bytes() const { return weights_.bytes(); }

 private:
  void attach(Parameter& parameter, std::int64_t offset);

  UnitPlan plan_;
  UnitSetup setup_;
  FlatLayout layout_;
  at::Tensor master_;
  at::Tensor gradient_;
  std::vector<SlicePiece> pieces_;
  GatheredWeights weights_;
  GradientReduction reduction_;
};

}  // namespace echelon
