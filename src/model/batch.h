#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/sequences.h"

namespace echelon {

/// One rank's micro-batch, the input of a model; all tensors on the model's device. Token models use `ids`,
/// image models `images`.
struct Batch {
  std::int64_t samples = 0;
  std::int64_t first_sample = 0;  ///< global number of the first one, counted over epochs

  at::Tensor ids;       ///< int64 [tokens], sequence after sequence; of an encoder-decoder, the encoder's
  Sequences sequences;  ///< of `ids`: tokens of different sequences do not see each other
  Sequences by_sample;  ///< of `ids` too: the tokens of each sample, which may hold several sequences

  at::Tensor images;  ///< fp32 [samples, channels, height, width]

  /// int64; negative: not counted. Language model: the token after each of `ids`. Encoder-decoder: the target
  /// sequences. Images: the class of each sample.
  at::Tensor targets;
  Sequences target_sequences;  ///< encoder-decoder only: of `targets`, one for each sample

  /// A pass for training: dropout is on, its choices keyed by this (the run's seed).
  bool training = false;
  std::uint64_t dropout_key = 0;
};

/// Rows of equal length as a language model trains on them: int64 [rows, T + 1], of which columns [0, T) go
/// in and columns [1, T] are predicted.
[[nodiscard]] Batch language_batch(const at::Tensor& ids);

/// The size of one sample, for cost estimates.
struct SampleShape {
  std::int64_t tokens = 0;         ///< that go in; 0: not a token model
  std::int64_t target_tokens = 0;  ///< of an encoder-decoder's target
};

/// The result of one evaluation pass, summed over the batch.
struct Score {
  at::Tensor loss;  ///< fp32 scalar, as Model::loss
  at::Tensor
      correct;  ///< fp32 scalar: samples whose most likely class is the right one; undefined: no classes
};

}  // namespace echelon
