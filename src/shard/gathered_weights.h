#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "shard/layout.h"
#include "shard/unit_setup.h"
#include "shard/wrap.h"

namespace echelon {

/// The whole weights of one unit in compute precision, gathered from the slices of its ranks and freed again.
/// Views of them stay valid objects; their bytes are there from start() on and readable behind finish().
///
///   state       | start()    | finish()  | keep_part() | release() | invalidate()
///   kSharded    | kGathering | refused   | refused     | -         | -
///   kGathering  | -          | kGathered | kPartlyKept | kSharded  | kSharded
///   kGathered   | -          | -         | kPartlyKept | kSharded  | kSharded
///   kPartlyKept | kGathering | refused   | refused     | -         | kSharded
///
/// "-": the call changes nothing. "refused": Error(kTraining), a fault of this program. Where the slice is
/// the whole, the state is always kGathered. Every rank makes the same calls in the same order.
class GatheredWeights {
 public:
  enum class State : std::uint8_t {
    kSharded,     ///< nothing but the slices
    kGathering,   ///< the gather is under way
    kGathered,    ///< readable
    kPartlyKept,  ///< this rank holds a K-th of them for a gather among K neighbours
  };

  /// All outlive this object. `slice`: this rank's master weights.
  GatheredWeights(const UnitPlan& plan, const UnitSetup& setup, const FlatLayout& layout,
                  const at::Tensor& slice);
  /// Waits for a gather under way; its error has been or will be seen elsewhere.
  ~GatheredWeights();
  GatheredWeights(const GatheredWeights&) = delete;
  GatheredWeights& operator=(const GatheredWeights&) = delete;

  /// Casts the slice straight into its slot of the buffer and starts the gather in place.
  void start();
  void finish();
  /// Frees the bytes.
  void release();
  /// Frees the bytes but for the part that backward gathers from.
  void keep_part();
  /// The slice has changed.
  void invalidate();

  [[nodiscard]] State state() const { return state_; }
  /// Are they there, or on their way?
  [[nodiscard]] bool in_memory() const { return state_ == State::kGathering || state_ == State::kGathered; }
  [[nodiscard]] std::int64_t bytes() const { return whole_.bytes(); }
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const {
    return whole_.view(offset, shape);
  }

 private:
  [[noreturn]] void refuse(const char* call) const;

  const UnitPlan& plan_;
  const UnitSetup& setup_;
  const FlatLayout& layout_;
  at::Tensor slice_;
  ElasticTensor whole_;
  ElasticTensor part_;  ///< of kPartlyKept
  State state_;
  Pending gathering_;
};

}  // namespace echelon
