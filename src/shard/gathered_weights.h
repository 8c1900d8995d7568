#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/not_copied.h"
#include "comm/communicator.h"
#include "shard/fp8/fp8_slice.h"
#include "shard/layout.h"
#include "shard/unit_setup.h"
#include "shard/wrap.h"

namespace echelon {

/// The whole weights of one unit in compute precision or in fp8, gathered from the slices of its ranks and
/// freed again. Views stay valid objects throughout: their memory is allocated by start(), and may be read
/// after finish().
///
///   state       | start()    | finish()  | keep_part() | release() | invalidate()
///   kSharded    | kGathering | refused   | refused     | -         | -
///   kGathering  | -          | kGathered | kPartlyKept | kSharded  | kSharded
///   kGathered   | -          | -         | kPartlyKept | kSharded  | kSharded
///   kPartlyKept | kGathering | refused   | refused     | -         | kSharded
///
/// "-": the call does nothing. "refused": throws Error(kTraining), a bug in the caller. If the slice is the
/// whole buffer (is_whole()), the state is always kGathered. Not thread-safe. Every rank must make the same
/// calls in the same order.
class GatheredWeights : NotCopied {
 public:
  enum class State : std::uint8_t {
    kSharded,     ///< only the slices exist
    kGathering,   ///< the all-gather is in progress
    kGathered,    ///< gathered, may be read
    kPartlyKept,  ///< this rank holds 1/K of them for an all-gather among K neighbors
  };

  /// All arguments must outlive this object. `slice`: this rank's master weights, [slice_numel]. `fp8`: casts
  /// them to e4m3; null: they are gathered in compute precision.
  GatheredWeights(const UnitPlan& plan, const UnitSetup& setup, const FlatLayout& layout,
                  const at::Tensor& slice, const Fp8Slice* fp8 = nullptr);
  /// Waits for a gather in progress and ignores its error, which is reported elsewhere.
  ~GatheredWeights();

  /// Casts the slice directly into its slot of the gathered buffer and starts the all-gather in place. From
  /// kPartlyKept, gathers the kept parts among the K neighbors instead.
  void start();
  /// Waits for the gather. On a GPU only the stream waits, not the host.
  void finish();
  /// Waits for a gather in progress, then frees the memory.
  void release();
  /// Does what release() does, but keeps the part that backward gathers from.
  void keep_part();
  /// Called when the slice has changed: frees gathered weights and the kept part.
  void invalidate();

  [[nodiscard]] State state() const { return state_; }
  /// Gathered, or being gathered.
  [[nodiscard]] bool in_memory() const { return state_ == State::kGathering || state_ == State::kGathered; }
  /// Size of the gathered buffer, padding included, whether or not it is allocated now.
  [[nodiscard]] std::int64_t bytes() const { return whole_.bytes(); }
  /// View of the gathered buffer; `offset` and `shape` in elements.
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const {
    return whole_.view(offset, shape);
  }

 private:
  [[noreturn]] void refuse(const char* call) const;

  const UnitPlan& plan_;
  const UnitSetup& setup_;
  const FlatLayout& layout_;
  at::Tensor slice_;
  const Fp8Slice* fp8_;
  ElasticTensor whole_;
  ElasticTensor part_;  ///< in kPartlyKept only
  State state_;
  Pending gathering_;
};

}  // namespace echelon
