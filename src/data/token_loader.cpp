#include "data/token_loader.h"

#include <array>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/str.h"

namespace echelon {
namespace {

template <std::size_t N>
std::uint32_t identity(const std::array<std::uint64_t, N>& parts) {
  return crc32c(std::as_bytes(std::span(parts)));
}

TokenBatch empty_batch(std::int64_t first, std::int64_t rows, std::int64_t seq_len) {
  if (first < 0 || rows < 0)
    throw Error(Code::kUsage, str("cannot read ", rows, " samples from sample ", first));
  TokenBatch batch;
  batch.rows = rows;
  batch.columns = seq_len + 1;
  batch.ids.resize(static_cast<std::size_t>(rows * batch.columns));
  return batch;
}

std::uint64_t whole_windows(const TokenFile& file, std::int64_t seq_len) {
  const std::uint64_t windows = (file.token_count() - 1) / static_cast<std::uint64_t>(seq_len);
  if (windows == 0) {
    throw Error(Code::kData, str("token file '", file.path().string(), "' holds ", file.token_count(),
                                 " tokens, fewer than one sample of data.seq_len + 1 = ", seq_len + 1,
                                 ": prepare more text or lower data.seq_len"));
  }
  return windows;
}

}  // namespace

TokenLoader::TokenLoader(TokenFile file, std::int64_t seq_len, std::optional<std::uint64_t> shuffle_seed)
    : file_(std::move(file)), seq_len_(seq_len), windows_(whole_windows(file_, seq_len)) {
  if (shuffle_seed) order_.emplace(windows_, *shuffle_seed);
  fingerprint_ =
      identity(std::array<std::uint64_t, 5>{1, file_.header().header_crc, static_cast<std::uint64_t>(seq_len),
                                            shuffle_seed ? 1U : 0U, shuffle_seed.value_or(0)});
}

std::int64_t TokenLoader::samples_per_epoch() const {
  return static_cast<std::int64_t>(windows_);
}

TokenBatch TokenLoader::read(std::int64_t first, std::int64_t rows) const {
  TokenBatch batch = empty_batch(first, rows, seq_len_);
  const auto columns = static_cast<std::size_t>(batch.columns);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto sample = static_cast<std::uint64_t>(first + row);
    const std::uint64_t index = sample % windows_;
    const std::uint64_t window = order_ ? order_->at(sample / windows_, index) : index;
    file_.read(window * static_cast<std::uint64_t>(seq_len_),
               std::span(batch.ids).subspan(static_cast<std::size_t>(row) * columns, columns));
  }
  return batch;
}

SyntheticLoader::SyntheticLoader(std::int64_t seq_len, std::int64_t vocab_size, std::uint64_t seed)
    : seq_len_(seq_len),
      vocab_size_(static_cast<std::uint64_t>(vocab_size)),
      key_(stream_key(seed, "synthetic tokens")),
      fingerprint_(
          identity(std::array<std::uint64_t, 4>{2, vocab_size_, static_cast<std::uint64_t>(seq_len), seed})) {
}

TokenBatch SyntheticLoader::read(std::int64_t first, std::int64_t rows) const {
  TokenBatch batch = empty_batch(first, rows, seq_len_);
  std::size_t at = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint64_t previous = 0;
    for (std::int64_t column = 0; column < batch.columns; ++column) {
      const auto words =
          philox4x32(key_, static_cast<std::uint64_t>(column), static_cast<std::uint64_t>(first + row));
      // The product of two uniform numbers leans towards zero, as the ranks of words in a text do.
      const std::uint64_t skewed = (std::uint64_t{words[0]} * words[1]) >> 32;
      const bool continues = column > 0 && (words[2] & 1) != 0;
      previous = continues ? (previous + 1) % vocab_size_ : (skewed * vocab_size_) >> 32;
      batch.ids[at++] = static_cast<std::int64_t>(previous);
    }
  }
  return batch;
}

}  // namespace echelon
