#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/files/new_file.h"
#include "data/tokens/token_format.h"

namespace echelon {

/// Metadata of a token file.
struct TokenFileOptions {
  std::uint64_t vocab_size = 0;        ///< every id must be below it
  std::uint64_t tokenizer_digest = 0;  ///< Tokenizer::digest(); 0: made without a tokenizer
  std::uint32_t flags = 0;             ///< kDocuments... bits
};

/// What TokenFileWriter::save() made durable.
struct TokenFileMark {
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
  std::uint64_t max_token = 0;
  std::uint32_t checksum = 0;
};

/// Writes one token file, document by document, as a draft (fs::NewFile); finish() makes it durable and
/// renames it, so readers see a complete file or none. Without finish() the draft is removed. Memory: 8 bytes
/// per document, 4 bytes per 16 KiB block. Not thread-safe.
class TokenFileWriter {
 public:
  /// Throws Error(kData) when the file cannot be made.
  TokenFileWriter(std::filesystem::path path, const TokenFileOptions& options);

  /// Goes on behind `mark` (none: from nothing) in the file `draft`, with `draft`.ends beside it. Both stay
  /// until finish(). Throws Error(kData) also when they do not hold what was saved.
  TokenFileWriter(std::filesystem::path path, const TokenFileOptions& options, const fs::Path& draft,
                  const std::optional<TokenFileMark>& mark);

  /// Makes all that was added durable in the draft, which has to be one that stays. Throws Error(kData).
  [[nodiscard]] TokenFileMark save();

  /// Throws Error(kData): empty document, id outside [0, vocab_size), disk full.
  void add_document(std::span<const std::int32_t> ids) { add_chat(ids, {}); }

  /// A document of a file of chats; `trained`: which of its tokens are, none beyond its end.
  void add_chat(std::span<const std::int32_t> ids, const std::vector<bool>& trained);

  [[nodiscard]] std::uint64_t token_count() const { return header_.token_count; }
  [[nodiscard]] std::uint64_t document_count() const { return ends_.size(); }

  /// Publishes the file and returns its header. Throws Error(kData) when no document, or half a pair, was
  /// added or the disk fails.
  TokenFileHeader finish();

 private:
  void set_header(const TokenFileOptions& options);
  void read_back(const TokenFileMark& mark);
  void sum_blocks(std::size_t whole);
  [[nodiscard]] std::uint32_t checksum() const;
  void append(std::span<const std::byte> bytes);
  void flush_blocks(bool last);

  std::filesystem::path path_;
  fs::NewFile draft_;
  std::optional<fs::NewFile> ends_draft_;
  TokenFileHeader header_;
  std::vector<std::uint64_t> ends_;
  std::vector<std::uint32_t> block_crcs_;
  std::vector<std::byte> pending_;
  std::vector<std::byte> narrow_;  // one document's ids in file width
  std::uint64_t written_ = 0;      // body bytes on disk
  std::size_t saved_ends_ = 0;
};

}  // namespace echelon
