#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "base/not_copied.h"
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
class Unit final : public GradientSink, NotCopied {
 public:
  /// Allocates the slices, and makes the parameters of `plan` views of buffers that are still empty.
  /// `scales`: of Fp8Slice; undefined: training passes gather the weights as all others do.
  Unit(const UnitPlan& plan, const UnitSetup& setup, const at::Tensor& scales = {});

  /// Writes the initial values of this rank's slice.
  void initialize(std::uint64_t seed);

  /// How the passes that follow use the weights: those that train gather matrices of fp8 products in fp8.
  void prepare(bool training);
  /// Writes what Fp8Slice::measure() finds; false: nothing has changed since the last time.
  bool measure();
  void start_unshard() { weights().start(); }
  void finish_unshard() { weights().finish(); }
  [[nodiscard]] bool gathered() const { return weights().in_memory(); }
  /// Called after forward: frees the weights if the strategy says so. `backward_follows`: a backward pass
  /// will use them, so all or 1/K of them may be kept.
  void release_after_forward(bool backward_follows);
  /// Called when the slice has changed: invalidates gathered weights.
  void weights_changed();

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
  [[nodiscard]] std::int64_t trained_numel() const;  ///< in pieces(), without what is frozen
  /// False if it has no gradient: without training, and if all its parameters are frozen.
  [[nodiscard]] bool trains() const { return setup_.trains; }
  [[nodiscard]] const at::Tensor& master() const { return master_; }  ///< [slice_numel], fp32 or bf16
  /// fp32 [slice_numel], zeros where parameters are frozen; empty if !trains()
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  [[nodiscard]] std::int64_t gathered_bytes() const { return weights().bytes(); }

 private:
  void attach(std::size_t parameter);
  [[nodiscard]] GatheredWeights& weights() { return trains_now_ ? *weights8_ : weights_; }
  [[nodiscard]] const GatheredWeights& weights() const { return trains_now_ ? *weights8_ : weights_; }

  UnitPlan plan_;
  UnitSetup setup_;
  FlatLayout layout_;
  at::Tensor master_;
  at::Tensor gradient_;
  std::vector<SlicePiece> pieces_;
  std::optional<Fp8Slice> slice8_;  ///< of a unit of matrices of fp8 products, in training
  bool measured_ = false;
  bool trains_now_ = false;  ///< and so weights8_ is in use
  GatheredWeights weights_;
  std::optional<GatheredWeights> weights8_;
  GradientReduction reduction_;
};

}  // namespace echelon
