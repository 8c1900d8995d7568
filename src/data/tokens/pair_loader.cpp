#include "data/tokens/pair_loader.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "data/data_identity.h"

namespace echelon {
namespace {

constexpr std::int64_t kEnd = 1;
constexpr std::int64_t kFirstWord = 2;

/// `limit` times an exponentially distributed number of the given mean, from 1 to limit.
std::int64_t varied_length(std::int64_t limit, float mean, float uniform) {
  const float share = std::min(1.0F, -std::log(1.0F - uniform) * mean);
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::lround(static_cast<double>(share) * static_cast<double>(limit))));
}

}  // namespace

SyntheticPairLoader::SyntheticPairLoader(const PairSizes& sizes, std::uint64_t seed)
    : sizes_(sizes),
      key_(stream_key(seed, "synthetic pairs")),
      lengths_key_(stream_key(seed, "lengths of synthetic pairs")) {
  identify(std::uint64_t{1} << 40,
           data_identity(5, sizes.source, sizes.target, sizes.vocabulary, sizes.full_length, seed),
           {sizes.source, sizes.target, sizes.target});
  if (sizes.source < 1 || sizes.target < 1) {
    throw Error(Code::kUsage, "synthetic pairs of ", sizes.source, " and ", sizes.target,
                " tokens; expected at least 1: see data.seq_len and data.target_len");
  }
  if (sizes.vocabulary < 4) {
    throw Error(Code::kUsage, "model.vocab_size is ", sizes.vocabulary,
                "; expected at least 4 for data.kind: synthetic_pairs");
  }
}

void SyntheticPairLoader::append(std::int64_t sample, SampleBatch& batch) const {
  const auto number = 2 * static_cast<std::uint64_t>(sample);
  std::int64_t source = sizes_.source;
  std::int64_t target = sizes_.target;
  if (!sizes_.full_length) {
    source = varied_length(source, 1.46F, uniform_at(lengths_key_, number));
    target = varied_length(target, 0.6F, uniform_at(lengths_key_, number + 1));
  }
  const auto words = static_cast<std::uint64_t>(sizes_.vocabulary - kFirstWord);
  for (std::int64_t i = 0; i < source; ++i) {
    const auto random = philox4x32(key_, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(sample));
    // The product of two uniform numbers favors small values, like the ranks of words in a text (Zipf).
    const std::uint64_t skewed = (std::uint64_t{random[0]} * random[1]) >> 32;
    batch.ids.push_back(kFirstWord + static_cast<std::int64_t>((skewed * words) >> 32));
  }
  const auto begin = static_cast<std::int64_t>(batch.ids.size()) - source;
  for (std::int64_t i = 0; i + 1 < target; ++i) {
    const std::int64_t back = 3 * i % source;
    batch.targets.push_back(batch.ids[static_cast<std::size_t>(begin + source - 1 - back)]);
  }
  batch.targets.push_back(kEnd);
  batch.lengths.push_back(source);
  batch.target_lengths.push_back(target);
}

}  // namespace echelon
