#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

/// The fixed part of a token file (docs/data.md holds the format byte by byte). Layout of a file:
/// header (128 bytes) | tokens | zeros up to a multiple of 8 | document ends (u64) | block checksums (u32).
namespace echelon {

/// Documents alone are version 1, pairs version 2, chats version 3, preferences version 4, so that readers of
/// one kind refuse the others.
inline constexpr std::uint32_t kTokenFileVersion = 1;
inline constexpr std::uint32_t kTokenPairsVersion = 2;
inline constexpr std::uint32_t kTokenChatsVersion = 3;
inline constexpr std::uint32_t kTokenPreferencesVersion = 4;
inline constexpr std::uint64_t kTokenHeaderBytes = 128;
/// Everything between header and checksums is checksummed in blocks of this size; a read verifies the blocks
/// it touches, so it is also the least amount of disk traffic of one sample.
inline constexpr std::uint64_t kTokenBlockBytes = 16384;

inline constexpr std::uint32_t kDocumentsStartWithBos = 1U << 0;
inline constexpr std::uint32_t kDocumentsEndWithEos = 1U << 1;
/// Document 2i is the source of pair i, document 2i + 1 its target.
inline constexpr std::uint32_t kDocumentsArePairs = 1U << 2;
/// The highest bit of each id tells whether the token is trained: a document is a conversation.
inline constexpr std::uint32_t kDocumentsAreChats = 1U << 3;
/// Beside kDocumentsAreChats: document 2i ends with the chosen answer of pair i, document 2i + 1 with the
/// rejected one.
inline constexpr std::uint32_t kDocumentsArePreferences = 1U << 4;

/// Sizes and offsets are bytes, counts are elements.
struct TokenFileHeader {
  std::uint32_t token_width = 0;  ///< bytes of one id: 2 or 4, see token_width_for()
  std::uint32_t flags = 0;        ///< kDocuments... bits
  std::uint64_t token_count = 0;
  std::uint64_t document_count = 0;
  std::uint64_t vocab_size = 0;        ///< of the tokenizer; every id is below it
  std::uint64_t max_token = 0;         ///< largest id in the file
  std::uint64_t tokenizer_digest = 0;  ///< Tokenizer::digest(); 0: made without a tokenizer
  std::uint32_t checksums_crc = 0;     ///< CRC32C of the block checksums
  std::uint32_t header_crc = 0;  ///< CRC32C of the header before it: identifies the file's whole content

  [[nodiscard]] bool holds_pairs() const { return (flags & kDocumentsArePairs) != 0; }
  [[nodiscard]] bool holds_chats() const { return (flags & kDocumentsAreChats) != 0; }
  [[nodiscard]] bool holds_preferences() const { return (flags & kDocumentsArePreferences) != 0; }
  [[nodiscard]] std::uint32_t version() const {
    if (holds_pairs()) return kTokenPairsVersion;
    if (holds_preferences()) return kTokenPreferencesVersion;
    return holds_chats() ? kTokenChatsVersion : kTokenFileVersion;
  }
  [[nodiscard]] std::uint64_t documents_offset() const;
  [[nodiscard]] std::uint64_t checksums_offset() const;
  [[nodiscard]] std::uint64_t block_count() const;
  [[nodiscard]] std::uint64_t file_bytes() const;
};

/// 2 or 4: what ids below `vocab_size` need; with the bit of a chat's tokens.
[[nodiscard]] std::uint32_t token_width_for(std::uint64_t vocab_size, bool chats = false);

/// The header's bytes; fills in header.header_crc.
[[nodiscard]] std::array<std::byte, kTokenHeaderBytes> encode_token_header(TokenFileHeader& header);

/// The inverse. `actual_bytes`: size of the whole file. Throws Error(kData) naming `path`: empty, foreign,
/// newer, damaged, cut short or extended file, and every combination of fields that no writer makes.
[[nodiscard]] TokenFileHeader decode_token_header(std::span<const std::byte> bytes,
                                                  std::uint64_t actual_bytes,
                                                  const std::filesystem::path& path);

}  // namespace echelon
