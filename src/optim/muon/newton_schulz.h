#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace echelon {

/// An approximation of U V^T, where `matrix` (bf16, [rows, columns]) is U S V^T: `steps` quintic
/// Newton-Schulz iterations in bf16, operation by operation as torch.optim.Muon. Its singular values are
/// between some 0.7 and 1.2. Besides, two matrices of its size and two squares of its smaller side exist at a
/// time; on a CPU without products of bf16 these are fp32.
[[nodiscard]] at::Tensor newton_schulz(const at::Tensor& matrix, std::int64_t steps);

}  // namespace echelon
