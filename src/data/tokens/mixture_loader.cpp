#include "data/tokens/mixture_loader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "data/data_identity.h"

namespace echelon {
namespace {

/// Shares are those of the weights, to a sample or two of each source, at every multiple of so many samples.
constexpr std::uint64_t kMostShuffled = 1000;

std::vector<MixtureLoader::Source> reduced(std::vector<MixtureLoader::Source> sources) {
  std::uint64_t factor = 0;
  for (const auto& source : sources) factor = std::gcd(factor, source.share);
  for (auto& source : sources) source.share /= factor;
  return sources;
}

std::uint64_t sum_of(const std::vector<MixtureLoader::Source>& sources) {
  std::uint64_t sum = 0;
  for (const auto& source : sources) sum += source.share;
  return sum;
}

/// The part of the first `count` samples of `whole` that a share of them has, rounded down.
std::uint64_t part_of(std::uint64_t count, std::uint64_t share, std::uint64_t whole) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{count} * share / whole);
}

std::optional<std::uint64_t> key_of(std::optional<std::uint64_t> seed) {
  return seed ? std::optional(stream_key(*seed, "data mixture")) : std::nullopt;
}

}  // namespace

MixtureLoader::MixtureLoader(std::vector<Source> sources, std::optional<std::uint64_t> shuffle_seed)
    : sources_(reduced(std::move(sources))),
      round_(sum_of(sources_)),
      window_(std::min(round_, kMostShuffled)),
      order_(window_, key_of(shuffle_seed)) {
  std::uint64_t samples = 0;
  std::uint32_t identity = data_identity(9, shuffle_seed.has_value(), shuffle_seed.value_or(0));
  for (const Source& source : sources_) {
    samples += static_cast<std::uint64_t>(source.loader->samples_per_epoch());
    identity = data_identity(identity, source.loader->fingerprint(), source.share);
  }
  identify(samples, identity, sources_.front().loader->sample_size());
}

void MixtureLoader::append(std::int64_t sample, SampleBatch& batch) const {
  const auto number = static_cast<std::uint64_t>(sample);
  const std::uint64_t place = number - number % window_ + order_.at(number);
  const std::uint64_t round = place / round_;
  // The place among the samples of this source and those behind it. Of the first n of these the source has
  // its part, rounded down; it has the next one, too, if the part then grows.
  std::uint64_t rest = place % round_;
  std::uint64_t whole = round_;
  for (const auto& [loader, share] : sources_) {
    const std::uint64_t drawn = part_of(rest, share, whole);
    if (part_of(rest + 1, share, whole) > drawn)
      return loader->append(static_cast<std::int64_t>(round * share + drawn), batch);
    rest -= drawn;
    whole -= share;
  }
  throw Error::internal("sample ", number, " of a mixture is of no source");
}

}  // namespace echelon
