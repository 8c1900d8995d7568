#include "data/tokens/token_loader.h"

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "data/data_identity.h"

namespace echelon {
namespace {

/// Adds a window, each of whose ids but the first is the target of the one before it.
void append_window(std::span<const std::int64_t> window, SampleBatch& batch) {
  for (auto* ids : {&batch.ids, &batch.targets})
    ids->reserve(static_cast<std::size_t>(batch.samples) * (window.size() - 1));
  batch.ids.insert(batch.ids.end(), window.begin(), window.end() - 1);
  batch.targets.insert(batch.targets.end(), window.begin() + 1, window.end());
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
  identify(order_.size(), data_identity(separate ? 7 : 1, file_, seq_len, shuffle_seed),
           {seq_len, 0, seq_len});
  if (separate) documents_.emplace(file_);
}

void TokenLoader::append(std::int64_t sample, SampleBatch& batch) const {
  const auto length = static_cast<std::uint64_t>(seq_len_);
  const std::uint64_t begin = order_.at(static_cast<std::uint64_t>(sample)) * length;
  std::vector<std::int64_t> window(length + 1);
  file_.read(begin, window);
  std::size_t at = batch.targets.size();
  append_window(window, batch);
  if (!documents_) return batch.lengths.push_back(seq_len_);
  batch.sample_lengths.push_back(seq_len_);
  // One token more than the input, to know whether the last one ends its document.
  auto parts = documents_->parts(begin, begin + length + 1);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    at += static_cast<std::size_t>(parts[i]);
    batch.targets[at - 1] = -1;
  }
  if (--parts.back() == 0) parts.pop_back();
  batch.lengths.insert(batch.lengths.end(), parts.begin(), parts.end());
}

SyntheticLoader::SyntheticLoader(std::int64_t seq_len, std::int64_t vocab_size, std::uint64_t seed)
    : seq_len_(seq_len),
      vocab_size_(static_cast<std::uint64_t>(vocab_size)),
      key_(stream_key(seed, "synthetic tokens")) {
  identify(std::uint64_t{1} << 40, data_identity(2, vocab_size_, seq_len, seed), {seq_len, 0, seq_len});
}

void SyntheticLoader::append(std::int64_t sample, SampleBatch& batch) const {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(seq_len_) + 1);
  std::uint64_t previous = 0;
  for (std::size_t column = 0; column < ids.size(); ++column) {
    const auto words = philox4x32(key_, column, static_cast<std::uint64_t>(sample));
    // The product of two uniform numbers favors small values, like the ranks of words in a text (Zipf).
    const std::uint64_t skewed = (std::uint64_t{words[0]} * words[1]) >> 32;
    const bool continues = column > 0 && (words[2] & 1) != 0;
    previous = continues ? (previous + 1) % vocab_size_ : (skewed * vocab_size_) >> 32;
    ids[column] = static_cast<std::int64_t>(previous);
  }
  append_window(ids, batch);
  batch.lengths.push_back(seq_len_);
}

}  // namespace echelon
