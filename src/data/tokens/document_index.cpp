#include "data/tokens/document_index.h"

#include <algorithm>
#include <array>
#include <span>

namespace echelon {
namespace {

constexpr std::uint64_t kBlock = 2048;  // ends: as many bytes as are verified at once

}  // namespace

DocumentIndex::DocumentIndex(const TokenFile& file) : file_(file) {
  std::uint64_t documents = 0;
  file.for_each_document([&](const TokenFile::Range& document) {
    if (++documents % kBlock == 0 || documents == file.document_count()) block_ends_.push_back(document.end);
  });
}

std::vector<std::int64_t> DocumentIndex::parts(std::uint64_t begin, std::uint64_t end) const {
  std::vector<std::int64_t> lengths;
  std::array<std::uint64_t, kBlock> buffer{};
  // The first block with a document end after `begin`: the search starts there.
  auto block = static_cast<std::uint64_t>(std::ranges::upper_bound(block_ends_, begin) - block_ends_.begin());
  for (std::uint64_t at = begin; at < end; ++block) {
    const std::uint64_t first = block * kBlock;
    const auto ends = std::span(buffer).first(std::min(kBlock, file_.document_count() - first));
    file_.read_ends(first, ends);
    for (auto next = std::ranges::upper_bound(ends, at); next != ends.end() && at < end; ++next) {
      lengths.push_back(static_cast<std::int64_t>(std::min(*next, end) - at));
      at = std::min(*next, end);
    }
  }
  return lengths;
}

}  // namespace echelon
