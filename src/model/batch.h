#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "model/sequences.h"

namespace echelon {

/// Preferences: the loss is that of DPO (Rafailov et al., Direct Preference Optimization). Sequences 2i and
/// 2i + 1 of a batch are the chosen and the rejected answer of pair i.
struct AnswerPairs {
  double beta = 0;
  at::Tensor reference;  ///< fp64 [pairs, 2]: log-probabilities that the answers had under the reference
  at::Tensor counted;    ///< fp64 [pairs]: 1, or 0 for a pair that is ignored
  /// fp64 [kSums]: the computation of the loss sets it to sums over the pairs that count.
  at::Tensor sums;
  enum Sum { kRight, kChosenReward, kRejectedReward, kChosenLogps, kRejectedLogps, kSums };
};

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

  std::optional<AnswerPairs> pairs;  ///< nothing: the loss is cross entropy

  /// Training pass: enables dropout, whose masks are keyed by `dropout_key` (the run's seed).
  bool training = false;
  std::uint64_t dropout_key = 0;
};

/// The fields of a batch that dropout needs, with these tokens of each sample (null: none). Without the
/// batch's tensors: layer bodies capture it, and recomputation keeps bodies until backward.
[[nodiscard]] Batch draws_of(const Batch& batch, Sequences by_sample);

/// The size of one sample, for cost estimates.
struct SampleShape {
  std::int64_t tokens = 0;         ///< input tokens; 0: not a token model
  std::int64_t target_tokens = 0;  ///< target tokens of an encoder-decoder
};

/// Floating-point operations of forward and backward for one sample, a third of them forward.
struct SampleFlops {
  double matrices = 0;   ///< of products with weights
  double attention = 0;  ///< of products of activations
  [[nodiscard]] double all() const { return matrices + attention; }
};

/// The result of one evaluation pass, summed over the batch.
struct Score {
  at::Tensor loss;  ///< fp32 scalar, as Model::loss
  /// Scalar: samples with the right most likely class, or pairs whose chosen answer has the higher reward;
  /// undefined: of other models.
  at::Tensor correct;
};

}  // namespace echelon
