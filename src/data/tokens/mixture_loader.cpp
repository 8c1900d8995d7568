#include "data/tokens/mixture_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/philox.h"
#include "data/data_identity.h"

namespace echelon {
namespace {

std::vector<MixtureLoader::Source> reduced(std::vector<MixtureLoader::Source> sources) {
  std::uint64_t factor = 0;
  for (const auto& source : sources) factor = std::gcd(factor, source.share);
  for (auto& source : sources) source.share /= factor;
  return sources;
}

std::vector<std::uint64_t> ends_of(const std::vector<MixtureLoader::Source>& sources) {
  std::vector<std::uint64_t> ends;
  for (const auto& source : sources) ends.push_back(source.share + (ends.empty() ? 0 : ends.back()));
  return ends;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

MixtureLoader::MixtureLoader(std::vector<Source> sources, std::uint64_t seed)
    : sources_(reduced(std::move(sources))),
      ends_(ends_of(sources_)),
      order_(ends_.back(), stream_key(seed, "data mixture")),
      fingerprint_(data_identity<2>({6, seed})) {
  for (const Source& source : sources_) {
    fingerprint_ = data_identity<3>({fingerprint_, source.loader->fingerprint(), source.share});
  }
}

std::int64_t MixtureLoader::samples_per_epoch() const {
  return std::accumulate(
      sources_.begin(), sources_.end(), std::int64_t{0},
      [](std::int64_t sum, const Source& source) { return sum + source.loader->samples_per_epoch(); });
}

MixtureLoader::Draw MixtureLoader::draw(std::uint64_t number) const {
  const std::uint64_t round = number / ends_.back();
  // Each round of n_1 + n_2 + ... samples is a permutation of its places; the first n_1 places belong to
  // source 1, and so on. So shares are exact in every round, without any stored state.
  const std::uint64_t place = order_.at(round, number % ends_.back());
  const auto source = static_cast<std::size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
  const std::uint64_t share = sources_[source].share;
  return {source, static_cast<std::int64_t>(round * share + (place - (ends_[source] - share)))};
}

SampleBatch MixtureLoader::read(std::int64_t first, std::int64_t count) const {
  SampleBatch batch = empty_batch(first, count);
  for (std::int64_t number = first; number < first + count; ++number) {
    const Draw drawn = draw(static_cast<std::uint64_t>(number));
    const SampleBatch sample = sources_[drawn.source].loader->read(drawn.sample, 1);
    append(batch.ids, sample.ids);
    append(batch.lengths, sample.lengths);
    append(batch.sample_lengths, sample.sample_lengths);
    append(batch.targets, sample.targets);
    append(batch.target_lengths, sample.target_lengths);
  }
  return batch;
}

}  // namespace echelon
