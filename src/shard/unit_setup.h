#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/error.h"
#include "shard/groups.h"
#include "shard/memory/buffer_pool.h"
#include "shard/memory/copy_stream.h"
#include "shard/precision.h"

namespace echelon {

/// The settings that all units of a model share.
struct UnitSetup {
  const Groups* groups;  ///< outlives the units
  BufferPool* pool;      ///< buffers on the device that computes; outlives the units
  CopyStream* copies;    ///< copies between the host and that device; outlives the units
  Strategy strategy;
  Precision precision;
  bool reduce_at_end = false;  ///< whole gradients are summed on the rank until the step's last micro-batch
  bool offload = false;        ///< slices are kept in host memory
  bool trains = true;          ///< false: no gradient buffers; in a unit's own copy also if it is frozen
};

/// True if the slice is the whole buffer in the compute type and on the compute device. Weights and gradients
/// then use it in place, without gather, cast or copy.
[[nodiscard]] inline bool is_whole(const at::Tensor& slice, at::ScalarType compute, const UnitSetup& setup) {
  return setup.groups->shard().size() == 1 && slice.scalar_type() == compute &&
         slice.device() == setup.pool->device();
}

/// Reports a call that the unit's state does not allow, which is a bug in the caller.
[[noreturn]] inline void refuse_call(std::string_view unit, std::string_view call, std::string_view state) {
  throw Error::internal("unit '", unit, "': ", call, " while its state is '", state, "'");
}

}  // namespace echelon
