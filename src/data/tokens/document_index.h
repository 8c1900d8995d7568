#pragma once
#include <cstdint>
#include <vector>

#include "data/tokens/token_file.h"

namespace echelon {

/// Where the documents of a token file end, for finding the borders inside of any range of tokens at the
/// price of one block: the end of every 2048th document is kept in memory. Unchangeable; any number of
/// threads.
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
