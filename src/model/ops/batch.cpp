#include "model/batch.h"

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

}  // namespace echelon
