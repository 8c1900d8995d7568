#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "shard/memory/copy_stream.h"

namespace echelon {

/// Keeps inputs of layers in host memory from forward to backward. Copies overlap with computation: when one
/// input is taken, the copy of the one stored before it starts, because backward needs it next. `copies` must
/// outlive this object. Not thread-safe.
class OffloadedInputs {
 public:
  class Input;
  explicit OffloadedInputs(CopyStream& copies) : copies_(&copies) {}

  /// Starts the copy of `x`, on a GPU, to host memory. The caller may drop `x` at once; its memory is reused
  /// only after the copy.
  [[nodiscard]] std::shared_ptr<Input> put(const at::Tensor& x);
  /// Returns the input on its device, ready for use in the current stream. At most once per input.
  [[nodiscard]] at::Tensor take(const std::shared_ptr<Input>& input);

 private:
  void bring(Input& input);

  CopyStream* copies_;
  std::vector<std::weak_ptr<Input>> waiting_;  ///< in the order of put()
};

}  // namespace echelon
