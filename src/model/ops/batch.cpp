#include "model/batch.h"

#include <ATen/ATen.h>

#include <utility>

namespace echelon {

Batch draws_of(const Batch& batch, Sequences by_sample) {
  Batch draws;
  draws.samples = batch.samples;
  draws.first_sample = batch.first_sample;
  draws.by_sample = std::move(by_sample);
  draws.training = batch.training;
  draws.dropout_key = batch.dropout_key;
  return draws;
}

Batch language_batch(const at::Tensor& ids) {
  const std::int64_t rows = ids.size(0);
  const std::int64_t length = ids.size(1) - 1;
  Batch batch;
  batch.samples = rows;
  batch.ids = ids.narrow(1, 0, length).reshape({-1});
  batch.sequences = batch.by_sample = make_sequences(rows, length);
  batch.targets = ids.narrow(1, 1, length).reshape({-1});
  return batch;
}

}  // namespace echelon
