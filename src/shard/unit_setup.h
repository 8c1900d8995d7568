#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/error.h"
#include "base/str.h"
#include "shard/groups.h"
#include "shard/memory/buffer_pool.h"
#include "shard/memory/copy_stream.h"
#include "shard/precision.h"

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

/// With one rank a shard group and no cast, a slice is the whole: it is used where it stays.
[[nodiscard]] inline bool is_whole(const at::Tensor& slice, at::ScalarType compute, const UnitSetup& setup) {
  return setup.groups->shard().size() == 1 && slice.scalar_type() == compute &&
         slice.device() == setup.pool->device();
}

/// A call that a unit's state does not allow: a fault of this program.
[[noreturn]] inline void refuse_call(std::string_view unit, std::string_view call, std::string_view state) {
  throw Error(Code::kTraining,
              str("internal error: unit '", unit, "': ", call, " while its state is '", state, "'"));
}

}  // namespace echelon
