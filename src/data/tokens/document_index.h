#pragma once
#include <cstdint>
#include <vector>

#include "data/tokens/token_file.h"

namespace echelon {

/// The document ends of a token file. Finds the borders inside any range of tokens by reading one block:
/// the end of every 2048th document is kept in memory. Immutable; thread-safe.
class DocumentIndex {
 public:
  /// Reads all ends once. `file` must outlive this. Throws Error(kData) as TokenFile::read does.
  explicit DocumentIndex(const TokenFile& file);

  /// Lengths of the parts into which document borders cut tokens [begin, end); begin < end.
  [[nodiscard]] std::vector<std::int64_t> parts(std::uint64_t begin, std::uint64_t end) const;

 private:
  const TokenFile& file_;
  std::vector<std::uint64_t> block_ends_;  // of the last document of each block
};

}  // namespace echelon
