#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/sequences.h"

namespace echelon {

/// One rank's micro-batch: the input of a model. All tensors are on the model's device. Token models use
/// `ids`, image models `images`.
struct Batch {
  std::int64_t samples = 0;
  std::int64_t first_sample = 0;  ///< global number of the first sample, counted across epochs

  at::Tensor ids;       ///< int64 [tokens], sequences concatenated; of an encoder-decoder: the sources
  Sequences sequences;  ///< of `ids`; attention does not cross their borders
  Sequences by_sample;  ///< the tokens of each sample in `ids`; a sample may contain several sequences

  at::Tensor images;  ///< fp32 [samples, channels, height, width]

  /// int64; negative: ignored. Language model [tokens]: the next token of each of `ids`. Encoder-decoder: the
  /// target sequences, concatenated. Images [samples]: the class of each sample.
  at::Tensor targets;
  Sequences target_sequences;  ///< encoder-decoder only: of `targets`, one per sample

  /// Training pass: enables dropout, whose masks are keyed by `dropout_key` (the run's seed).
  bool training = false;
  std::uint64_t dropout_key = 0;
};

/// A training batch of a language model from rows of equal length. `ids`: int64 [rows, T + 1]; columns [0, T)
/// are the input, columns [1, T] the targets.
[[nodiscard]] Batch language_batch(const at::Tensor& ids);

/// The size of one sample, for cost estimates.
struct SampleShape {
  std::int64_t tokens = 0;         ///< input tokens; 0: not a token model
  std::int64_t target_tokens = 0;  ///< target tokens of an encoder-decoder
};

/// The result of one evaluation pass, summed over the batch.
struct Score {
  at::Tensor loss;     ///< fp32 scalar, as Model::loss
  at::Tensor correct;  ///< fp32 scalar: samples with the right most likely class; undefined: no classifier
};

}  // namespace echelon
