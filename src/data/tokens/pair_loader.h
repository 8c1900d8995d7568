#pragma once
#include <cstdint>

#include "data/loader.h"

namespace echelon {

/// Sizes of a SyntheticPairLoader's samples.
struct PairSizes {
  std::int64_t source;       ///< tokens at most
  std::int64_t target;       ///< tokens at most, its end included
  std::int64_t vocabulary;   ///< at least 4
  bool full_length = false;  ///< every sequence is as long as it may be
};

/// Pairs of a source and a target computed from (seed, sample), for benchmarks and tests without files. The
/// target is learnable: every third token of its source from the last one back, round and round, then the
/// end token 1. Lengths vary as those of WikiHow (Koupaee & Wang: 580 and 62 words on average) clipped to 512
/// and 150 tokens: about half of the sources fill their limit, few of the targets do. Ids 0 (padding) and 1
/// are in no source.
class SyntheticPairLoader final : public Loader {
 public:
  /// Throws Error(kUsage) for sizes below one or a vocabulary below four.
  SyntheticPairLoader(const PairSizes& sizes, std::uint64_t seed);

  void append(std::int64_t sample, SampleBatch& batch) const override;

 private:
  PairSizes sizes_;
  std::uint64_t key_;
  std::uint64_t lengths_key_;
};

}  // namespace echelon
