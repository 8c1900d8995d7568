#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "shard/memory/copy_stream.h"

namespace echelon {

/// Inputs of layers that wait in host memory from forward to backward. They travel beside computation: when
/// one is taken back, the one put away before it starts on its way, as backward will want it next. `copies`
/// outlives it.
class OffloadedInputs {
 public:
  class Input;
  explicit OffloadedInputs(CopyStream& copies) : copies_(&copies) {}

  /// `x`, of a device that is not the CPU: its memory there is free once it is copied.
  [[nodiscard]] std::shared_ptr<Input> put(const at::Tensor& x);
  /// On the device again, once, for the current stream.
  [[nodiscard]] at::Tensor take(const std::shared_ptr<Input>& input);

 private:
  void bring(Input& input);

  CopyStream* copies_;
  std::vector<std::weak_ptr<Input>> waiting_;  ///< in the order in which they were put away
};

}  // namespace echelon
