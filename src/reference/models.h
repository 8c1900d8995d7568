#pragma once
#include "reference/parts.h"

namespace echelon::reference {

/// Each: the sum of the losses of all targets that count in `sample`. Differentiable. The llama families
/// differ by what they have: windows, biases, norms, factors.
[[nodiscard]] at::Tensor llama_loss(const Pass& pass, const SampleBatch& sample);
[[nodiscard]] at::Tensor gpt2_loss(const Pass& pass, const SampleBatch& sample);
[[nodiscard]] at::Tensor gpt_neox_loss(const Pass& pass, const SampleBatch& sample);
[[nodiscard]] at::Tensor t5_loss(const Pass& pass, const SampleBatch& sample);
[[nodiscard]] at::Tensor vit_loss(const Pass& pass, const SampleBatch& sample);
[[nodiscard]] at::Tensor deepvit_loss(const Pass& pass, const SampleBatch& sample);
[[nodiscard]] at::Tensor cnn_loss(const Pass& pass, const SampleBatch& sample);

}  // namespace echelon::reference
