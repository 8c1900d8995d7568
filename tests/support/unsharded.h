#pragma once
#include <ATen/ATen.h>

#include "model/model.h"

/// Models and batches of one process, without the sharding engine.
namespace echelon::test {

/// Allocates storage for every parameter, with its initial values.
inline void materialize(const Model& model, std::uint64_t seed, at::ScalarType dtype = at::kFloat) {
  for (Parameter* parameter : model.parameters()) {
    at::Tensor values = at::empty(parameter->shape(), at::kFloat);
    float* at = values.mutable_data_ptr<float>();
    for (const Parameter::Part& part : parameter->parts()) {
      fill_initial(part, parameter->init(), seed, 0, part.numel(), at);
      at += part.numel();
    }
    parameter->value = values.to(dtype).set_requires_grad(true);
  }
}

/// A training batch of a language model from rows of equal length. `ids`: int64 [rows, T + 1]; columns [0, T)
/// are the input, columns [1, T] the targets.
inline Batch language_batch(const at::Tensor& ids) {
  const std::int64_t rows = ids.size(0);
  const std::int64_t length = ids.size(1) - 1;
  Batch batch;
  batch.samples = rows;
  batch.ids = ids.narrow(1, 0, length).reshape({-1});
  batch.sequences = batch.by_sample = make_sequences(rows, length);
  batch.targets = ids.narrow(1, 1, length).reshape({-1});
  return batch;
}

}  // namespace echelon::test
