#include "data/tokens/document_loader.h"

#include <algorithm>
#include <span>
#include <utility>

#include "data/data_identity.h"

namespace echelon {

DocumentLoader::DocumentLoader(TokenFile file, std::int64_t seq_len,
                               std::optional<std::uint64_t> shuffle_seed)
    : file_(std::move(file)), seq_len_(seq_len), order_(file_.document_count(), shuffle_seed) {
  identify(order_.size(), data_identity(3, file_, seq_len, shuffle_seed), {seq_len, 0, seq_len});
}

void DocumentLoader::append(std::int64_t sample, SampleBatch& batch) const {
  const auto range = file_.document(order_.at(static_cast<std::uint64_t>(sample)));
  std::vector<std::int64_t> ids(std::min(range.end - range.begin, static_cast<std::uint64_t>(seq_len_) + 1));
  file_.read(range.begin, ids);
  // A single token goes in and predicts nothing.
  const auto length = static_cast<std::ptrdiff_t>(std::max<std::size_t>(ids.size(), 2) - 1);
  ids.resize(static_cast<std::size_t>(length) + 1, -1);
  batch.lengths.push_back(length);
  batch.ids.insert(batch.ids.end(), ids.begin(), ids.begin() + length);
  batch.targets.insert(batch.targets.end(), ids.begin() + 1, ids.end());
}

PairLoader::PairLoader(TokenFile file, std::int64_t seq_len, std::int64_t target_len,
                       std::optional<std::uint64_t> shuffle_seed)
    : file_(std::move(file)),
      seq_len_(seq_len),
      target_len_(target_len),
      order_(file_.document_count() / 2, shuffle_seed) {
  identify(order_.size(),
           data_identity(4, file_.header().header_crc, seq_len, target_len, shuffle_seed.has_value(),
                         shuffle_seed.value_or(0)),
           {seq_len, target_len, target_len});
}

/// Appends a document of at most `most` tokens, the last one always its own; returns their number.
std::int64_t PairLoader::append_document(std::uint64_t document, std::int64_t most,
                                         std::vector<std::int64_t>& ids) const {
  const auto range = file_.document(document);
  const std::uint64_t length = std::min(range.end - range.begin, static_cast<std::uint64_t>(most));
  const std::size_t before = ids.size();
  ids.resize(before + length);
  file_.read(range.begin, std::span(ids).subspan(before));
  if (length < range.end - range.begin) file_.read(range.end - 1, std::span(ids).last(1));
  return static_cast<std::int64_t>(length);
}

void PairLoader::append(std::int64_t sample, SampleBatch& batch) const {
  const std::uint64_t pair = order_.at(static_cast<std::uint64_t>(sample));
  batch.lengths.push_back(append_document(2 * pair, seq_len_, batch.ids));
  batch.target_lengths.push_back(append_document(2 * pair + 1, target_len_, batch.targets));
}

}  // namespace echelon
