#include "data/tokens/token_loader.h"

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "data/data_identity.h"

namespace echelon {
namespace {

/// A batch of windows of seq_len + 1 ids each, which `fill(sample, window)` writes.
template <class F>
SampleBatch windows_as_batch(std::int64_t first, std::int64_t count, std::int64_t seq_len, const F& fill) {
  const auto length = static_cast<std::size_t>(seq_len);
  SampleBatch batch = empty_batch(first, count);
  batch.ids.reserve(static_cast<std::size_t>(count) * length);
  batch.targets.reserve(static_cast<std::size_t>(count) * length);
  batch.lengths.assign(static_cast<std::size_t>(count), seq_len);
  std::vector<std::int64_t> window(length + 1);
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    fill(sample, std::span(window));
    batch.ids.insert(batch.ids.end(), window.begin(), window.end() - 1);
    batch.targets.insert(batch.targets.end(), window.begin() + 1, window.end());
  }
  return batch;
}

std::uint64_t whole_windows(const TokenFile& file, std::int64_t seq_len) {
  const std::uint64_t windows = (file.token_count() - 1) / static_cast<std::uint64_t>(seq_len);
  if (windows == 0) {
    throw Error(Code::kData, "token file '", file.path().string(), "' holds ", file.token_count(),
                " tokens, fewer than one sample of data.seq_len + 1 = ", seq_len + 1,
                ": prepare more text or lower data.seq_len");
  }
  return windows;
}

}  // namespace

TokenLoader::TokenLoader(TokenFile file, std::int64_t seq_len, std::optional<std::uint64_t> shuffle_seed,
                         bool separate)
    : file_(std::move(file)), seq_len_(seq_len), order_(whole_windows(file_, seq_len), shuffle_seed) {
  identify(order_.size(), data_identity(separate ? 7 : 1, file_, seq_len, shuffle_seed));
  if (separate) documents_.emplace(file_);
}

std::uint64_t TokenLoader::first_token(std::int64_t sample) const {
  return order_.at(static_cast<std::uint64_t>(sample)) * static_cast<std::uint64_t>(seq_len_);
}

SampleBatch TokenLoader::read(std::int64_t first, std::int64_t count) const {
  SampleBatch batch = windows_as_batch(
      first, count, seq_len_,
      [this](std::int64_t sample, std::span<std::int64_t> ids) { file_.read(first_token(sample), ids); });
  if (documents_) separate(batch);
  return batch;
}

/// Makes the parts of documents in each window sequences of their own.
void TokenLoader::separate(SampleBatch& batch) const {
  batch.sample_lengths = std::move(batch.lengths);
  batch.lengths.clear();
  std::size_t at = 0;
  for (std::int64_t sample = batch.first_sample; sample < batch.first_sample + batch.samples; ++sample) {
    const std::uint64_t begin = first_token(sample);
    // One token more than the input, to know whether the last one ends its document.
    auto parts = documents_->parts(begin, begin + static_cast<std::uint64_t>(seq_len_) + 1);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      at += static_cast<std::size_t>(parts[i]);
      batch.targets[at - 1] = -1;
    }
    at += static_cast<std::size_t>(parts.back()) - 1;
    if (--parts.back() == 0) parts.pop_back();
    batch.lengths.insert(batch.lengths.end(), parts.begin(), parts.end());
  }
}

SyntheticLoader::SyntheticLoader(std::int64_t seq_len, std::int64_t vocab_size, std::uint64_t seed)
    : seq_len_(seq_len),
      vocab_size_(static_cast<std::uint64_t>(vocab_size)),
      key_(stream_key(seed, "synthetic tokens")) {
  identify(std::uint64_t{1} << 40, data_identity(2, vocab_size_, seq_len, seed));
}

SampleBatch SyntheticLoader::read(std::int64_t first, std::int64_t count) const {
  return windows_as_batch(first, count, seq_len_, [this](std::int64_t sample, std::span<std::int64_t> ids) {
    std::uint64_t previous = 0;
    for (std::size_t column = 0; column < ids.size(); ++column) {
      const auto words = philox4x32(key_, column, static_cast<std::uint64_t>(sample));
      // The product of two uniform numbers favors small values, like the ranks of words in a text (Zipf).
      const std::uint64_t skewed = (std::uint64_t{words[0]} * words[1]) >> 32;
      const bool continues = column > 0 && (words[2] & 1) != 0;
      previous = continues ? (previous + 1) % vocab_size_ : (skewed * vocab_size_) >> 32;
      ids[column] = static_cast<std::int64_t>(previous);
    }
  });
}

}  // namespace echelon
