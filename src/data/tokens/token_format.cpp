#include "data/tokens/token_format.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/bytes.h"
#include "base/str.h"

namespace echelon {
namespace {

// The first byte is not ASCII; the last two reveal a transfer that changed line ends.
constexpr std::array<unsigned char, 8> kMagic{0x93, 'E', 'C', 'H', 'T', 'O', '\r', '\n'};

// Larger than any storage, and small enough that no product or sum below overflows.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 48;
constexpr std::uint64_t kMaxVocabulary = std::uint64_t{1} << 31;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& text) {
  throw Error(Code::kData, "token file '", path.string(), "' ", text);
}

void check_fields(const TokenFileHeader& h, std::span<const std::byte> bytes,
                  const std::filesystem::path& path) {
  const auto demand = [&](bool holds, std::string_view field) {
    if (!holds) refuse(path, str("has an invalid header (", field, "): prepare the data again"));
  };
  demand(get<std::uint32_t>(bytes, 12) == kTokenHeaderBytes, "header size");
  demand(h.vocab_size >= 1 && h.vocab_size <= kMaxVocabulary, "vocabulary size");
  constexpr std::uint32_t kFlags = kDocumentsStartWithBos | kDocumentsEndWithEos | kDocumentsArePairs |
                                   kDocumentsAreChats | kDocumentsArePreferences;
  demand((h.flags & ~kFlags) == 0 && !(h.holds_pairs() && h.holds_chats()) &&
             (h.holds_chats() || !h.holds_preferences()),
         "flags");
  demand(h.token_width == token_width_for(h.vocab_size, h.holds_chats()), "token width");
  demand(get<std::uint32_t>(bytes, 8) == h.version(), "version and flags");
  demand(h.token_count >= 1 && h.token_count <= kMaxCount, "token count");
  demand(h.document_count >= 1 && h.document_count <= h.token_count, "document count");
  demand(!(h.holds_pairs() || h.holds_preferences()) || h.document_count % 2 == 0, "document count of pairs");
  demand(h.max_token < h.vocab_size, "largest token id");
  demand(get<std::uint64_t>(bytes, 64) == kTokenHeaderBytes, "tokens offset");
  demand(get<std::uint64_t>(bytes, 72) == h.documents_offset(), "documents offset");
  demand(get<std::uint64_t>(bytes, 80) == h.checksums_offset(), "checksums offset");
  demand(get<std::uint64_t>(bytes, 88) == h.file_bytes(), "file size");
  demand(get<std::uint32_t>(bytes, 96) == kTokenBlockBytes, "block size");
  demand(std::all_of(bytes.begin() + 104, bytes.begin() + 124, [](std::byte b) { return b == std::byte{0}; }),
         "reserved bytes");
}

}  // namespace

std::uint32_t token_width_for(std::uint64_t vocab_size, bool chats) {
  return vocab_size <= (chats ? 32768 : 65536) ? 2 : 4;
}

std::uint64_t TokenFileHeader::documents_offset() const {
  return (kTokenHeaderBytes + token_count * token_width + 7) / 8 * 8;
}

std::uint64_t TokenFileHeader::checksums_offset() const {
  return documents_offset() + 8 * document_count;
}

std::uint64_t TokenFileHeader::block_count() const {
  return (checksums_offset() - kTokenHeaderBytes + kTokenBlockBytes - 1) / kTokenBlockBytes;
}

std::uint64_t TokenFileHeader::file_bytes() const {
  return checksums_offset() + 4 * block_count();
}

std::array<std::byte, kTokenHeaderBytes> encode_token_header(TokenFileHeader& header) {
  std::array<std::byte, kTokenHeaderBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, 8, header.version());
  put(bytes, 12, static_cast<std::uint32_t>(kTokenHeaderBytes));
  put(bytes, 16, header.token_width);
  put(bytes, 20, header.flags);
  put(bytes, 24, header.token_count);
  put(bytes, 32, header.document_count);
  put(bytes, 40, header.vocab_size);
  put(bytes, 48, header.max_token);
  put(bytes, 56, header.tokenizer_digest);
  put(bytes, 64, kTokenHeaderBytes);
  put(bytes, 72, header.documents_offset());
  put(bytes, 80, header.checksums_offset());
  put(bytes, 88, header.file_bytes());
  put(bytes, 96, static_cast<std::uint32_t>(kTokenBlockBytes));
  put(bytes, 100, header.checksums_crc);
  header.header_crc = crc32c(std::span<const std::byte>(bytes).first(124));
  put(bytes, 124, header.header_crc);
  return bytes;
}

TokenFileHeader decode_token_header(std::span<const std::byte> bytes, std::uint64_t actual_bytes,
                                    const std::filesystem::path& path) {
  if (actual_bytes == 0) refuse(path, "is empty: prepare the data again");
  const std::size_t compared = std::min(bytes.size(), kMagic.size());
  if (std::memcmp(bytes.data(), kMagic.data(), compared) != 0) {
    refuse(path, "is not a token file (it starts with other bytes): name a file made by `echelon prepare`");
  }
  if (bytes.size() < kTokenHeaderBytes) {
    refuse(path,
           str("is cut short: ", actual_bytes, " bytes do not hold its header; copy or prepare it again"));
  }
  const auto version = get<std::uint32_t>(bytes, 8);
  if (version < kTokenFileVersion || version > kTokenPreferencesVersion) {
    refuse(path,
           str("has format version ", version, ", this build reads versions ", kTokenFileVersion, " to ",
               kTokenPreferencesVersion, ": use the echelon that made it or prepare the data again"));
  }
  TokenFileHeader h;
  h.header_crc = get<std::uint32_t>(bytes, 124);
  if (h.header_crc != crc32c(bytes.first(124))) {
    refuse(path, "is damaged: its header does not match its checksum; copy or prepare it again");
  }
  h.token_width = get<std::uint32_t>(bytes, 16);
  h.flags = get<std::uint32_t>(bytes, 20);
  h.token_count = get<std::uint64_t>(bytes, 24);
  h.document_count = get<std::uint64_t>(bytes, 32);
  h.vocab_size = get<std::uint64_t>(bytes, 40);
  h.max_token = get<std::uint64_t>(bytes, 48);
  h.tokenizer_digest = get<std::uint64_t>(bytes, 56);
  h.checksums_crc = get<std::uint32_t>(bytes, 100);
  check_fields(h, bytes, path);
  if (actual_bytes != h.file_bytes()) {
    refuse(path, str(actual_bytes < h.file_bytes() ? "is cut short" : "has extra bytes at its end", ": ",
                     actual_bytes, " bytes instead of ", h.file_bytes(), "; copy or prepare it again"));
  }
  return h;
}

}  // namespace echelon
