#pragma once
#include <cstdint>

#include "comm/communicator.h"
#include "shard/sharded_model.h"

namespace echelon {

/// Proves during a run with adapters (LoRA) that every adapter is trained, and that nothing else is. Made on
/// all ranks, before the first step. All calls are collective.
class AdapterCheck {
 public:
  /// Sums the bits of what is frozen. Both must outlive this object.
  AdapterCheck(const ShardedModel& model, Communicator& comm);

  /// Call it after an update with a gradient and a rate above 0; only the first call looks. Throws
  /// Error(kTraining) if a B that is trained is zero: its adapter got no gradient.
  void updated();

  /// Throws Error(kTraining) if a frozen weight has changed since construction.
  void require_frozen();

 private:
  const ShardedModel& model_;
  Communicator& comm_;
  std::int64_t frozen_;
  bool looked_ = false;
};

}  // namespace echelon
