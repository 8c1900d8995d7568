#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "model/element_types.h"

namespace echelon::book {

/// Stands for every kernel of ATen: records what the operation would compute, and returns tensors of the
/// shapes, types and device that it would return, allocated but not written.
void book(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Records the operation's FLOPs and bytes; the stack holds its arguments, `results` what it returns.
void record(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
            c10::ArrayRef<c10::IValue> results);

/// Makes the results of operations for which a meta kernel does not suffice or does not exist. Returns false
/// for any other operation; otherwise fills `results`.
[[nodiscard]] bool by_hand(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments,
                           std::vector<c10::IValue>& results);

/// kU8 for types that no buffer has.
[[nodiscard]] inline DType type_of(const at::Tensor& tensor) {
  return dtype_of(tensor.scalar_type(), DType::kU8);
}

/// Fused attention; bytes of tensors are those of one pass over each. `keys`: keys that a query sees on
/// average.
void record_attention(const at::Tensor& q, double keys, bool backward);

}  // namespace echelon::book
