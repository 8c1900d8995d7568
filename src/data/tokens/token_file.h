#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/files/fs.h"
#include "data/tokens/token_format.h"

namespace echelon {

/// A token file opened for reading. Opening validates the header, the exact size and the checksum table;
/// every read verifies the blocks it takes bytes from, so ids are either the ones written or an Error. Bytes
/// are read with pread and not mapped: a file cut short or a disk failing during a run is an Error as well,
/// never a SIGBUS. Reads may run on several threads at once.
class TokenFile {
 public:
  /// Throws Error(kData): missing, folder, empty, foreign, newer, cut short, extended or damaged file.
  explicit TokenFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const TokenFileHeader& header() const { return header_; }
  [[nodiscard]] std::uint64_t token_count() const { return header_.token_count; }
  [[nodiscard]] std::uint64_t document_count() const { return header_.document_count; }

  /// Token ids [first, first + ids.size()), which must lie inside the file. `trained`: receives which of them
  /// are trained. Throws Error(kData): damaged block, id above the header's max_token, `trained` of a file
  /// that holds no chats.
  void read(std::uint64_t first, std::span<std::int64_t> ids, std::vector<bool>* trained = nullptr) const;

  /// Tokens [begin, end) of one document.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  [[nodiscard]] Range document(std::uint64_t index) const;

  /// Ends of documents [first, first + ends.size()), which must be in the file, as numbers of tokens. Throws
  /// Error(kData): damaged block, ends out of order.
  void read_ends(std::uint64_t first, std::span<std::uint64_t> ends) const;

  /// Calls `each` with every document in turn, in bounded memory. Throws Error(kData): damaged block, ends
  /// out of order, tokens outside of every document.
  void for_each_document(const std::function<void(const Range&)>& each) const;

 private:
  void read_verified(std::uint64_t offset, std::span<std::byte> bytes) const;

  std::filesystem::path path_;
  fs::Fd fd_;
  TokenFileHeader header_;
  std::vector<std::uint32_t> block_crcs_;
};

}  // namespace echelon
