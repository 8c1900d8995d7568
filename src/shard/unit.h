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

/// Parameters that are gathered and reduced together. If all are frozen there are no gradients. Only this
/// rank's slice persists (master weights, fp32 gradients). Whole weights exist, in compute precision, from
/// start_unshard() until they are released (GatheredWeights). Whole gradients exist from the first open() to
/// finish_reduce() (GradientReduction). Not thread-safe. Every rank must make the same calls in the same
/// order.
class Unit final : public GradientSink {
 public:
  /// Allocates the slices, and makes the parameters of `plan` views of buffers that are still empty.
  Unit(const UnitPlan& plan, const UnitSetup& setup);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// Writes the initial values of this rank's slice.
  void initialize(std::uint64_t seed);

  void start_unshard() { weights_.start(); }
  void finish_unshard() { weights_.finish(); }
  [[nodiscard]] bool gathered() const { return weights_.in_memory(); }
  /// Called after forward: frees the weights if the strategy says so. `backward_follows`: a backward pass
  /// will use them, so all or 1/K of them may be kept.
  void release_after_forward(bool backward_follows);
  /// Called when the slice has changed: invalidates gathered weights.
  void weights_changed() { weights_.invalidate(); }

  /// Called before a micro-batch's forward.
  void begin(MicroBatch batch) { reduction_.begin(batch); }
  /// GradientSink: opens the gradients of the whole unit.
  void open(Parameter& /*parameter*/) override { reduction_.open(); }
  /// Called when the unit's backward is complete: frees the weights if the strategy says so, and reduces the
  /// gradients, where there are any, over ranks or adds them to those of earlier micro-batches.
  void start_reduce();
  void finish_reduce() { reduction_.finish(); }
  /// Waits for the copy to gradient() that finish_reduce() started, with offload from a GPU. Otherwise does
  /// nothing.
  void land() { reduction_.land(); }

  [[nodiscard]] const UnitPlan& plan() const { return plan_; }
  [[nodiscard]] const std::string& name() const { return plan_.name; }
  [[nodiscard]] const FlatLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<SlicePiece>& pieces() const { return pieces_; }
  /// FlatLayout::trained_pieces() of this rank.
  [[nodiscard]] const std::vector<SlicePiece>& trained_pieces() const { return trained_pieces_; }
  /// Their elements.
  [[nodiscard]] std::int64_t trained_numel() const;
  /// False if it has no gradient: without training, and if all its parameters are frozen.
  [[nodiscard]] bool trains() const { return setup_.trains; }
  [[nodiscard]] const at::Tensor& master() const { return master_; }  ///< [slice_numel], fp32 or bf16
  /// fp32 [slice_numel], zeros where parameters are frozen; empty if !trains()
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
  std::vector<SlicePiece> trained_pieces_;
  GatheredWeights weights_;
  GradientReduction reduction_;
};

}  // namespace echelon
