#include "data/tokens/token_file_writer.h"

#include <algorithm>
#include <cstring>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

constexpr std::size_t kBufferBytes = 256 * kTokenBlockBytes;

template <class Id>
void narrow(std::span<const std::int32_t> ids, const std::vector<bool>& trained, std::byte* to) {
  constexpr std::uint32_t kTrained = std::uint32_t{1} << (8 * sizeof(Id) - 1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool bit = i < trained.size() && trained[i];
    const Id id = static_cast<Id>(static_cast<std::uint32_t>(ids[i]) | (bit ? kTrained : 0));
    std::memcpy(to + i * sizeof(Id), &id, sizeof(Id));
  }
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::filesystem::path path, const TokenFileOptions& options)
    : path_(std::move(path)), draft_(fs::draft_name(path_), Code::kData) {
  header_.vocab_size = options.vocab_size;
  header_.tokenizer_digest = options.tokenizer_digest;
  header_.flags = options.flags;
  header_.token_width = token_width_for(options.vocab_size, header_.holds_chats());
  pending_.reserve(kBufferBytes + kTokenBlockBytes);
}

void TokenFileWriter::add_chat(std::span<const std::int32_t> ids, const std::vector<bool>& trained) {
  if (ids.empty())
    throw Error(Code::kData, str("token file '", path_.string(), "': a document has no tokens"));
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= header_.vocab_size) {
      throw Error(Code::kData, str("token file '", path_.string(), "': token id ", id, " is outside [0, ",
                                   header_.vocab_size, "), the vocabulary"));
    }
    header_.max_token = std::max(header_.max_token, static_cast<std::uint64_t>(id));
  }
  narrow_.resize(ids.size() * header_.token_width);
  if (header_.token_width == 2) {
    narrow<std::uint16_t>(ids, trained, narrow_.data());
  } else {
    narrow<std::uint32_t>(ids, trained, narrow_.data());
  }
  append(narrow_);
  header_.token_count += ids.size();
  ends_.push_back(header_.token_count);
}

void TokenFileWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kBufferBytes - pending_.size()));
    pending_.insert(pending_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (pending_.size() == kBufferBytes) flush_blocks(false);
  }
}

void TokenFileWriter::flush_blocks(bool last) {
  const std::size_t whole = last ? pending_.size() : pending_.size() / kTokenBlockBytes * kTokenBlockBytes;
  const auto bytes = std::span<const std::byte>(pending_).first(whole);
  for (std::size_t at = 0; at < whole; at += kTokenBlockBytes) {
    block_crcs_.push_back(crc32c(bytes.subspan(at, std::min<std::size_t>(kTokenBlockBytes, whole - at))));
  }
  draft_.write(kTokenHeaderBytes + written_, bytes);
  written_ += whole;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
}

TokenFileHeader TokenFileWriter::finish() {
  if (ends_.empty())
    throw Error(Code::kData, str("token file '", path_.string(), "' would be empty: no documents"));
  if (header_.holds_pairs() && ends_.size() % 2 != 0)
    throw Error(Code::kData, str("token file '", path_.string(), "' would end with half a pair"));
  header_.document_count = ends_.size();
  const std::array<std::byte, 8> zeros{};
  append(std::span(zeros).first(header_.documents_offset() - kTokenHeaderBytes -
                                header_.token_count * header_.token_width));
  append(std::as_bytes(std::span(ends_)));
  flush_blocks(true);
  const auto table = std::as_bytes(std::span(block_crcs_));
  header_.checksums_crc = crc32c(table);
  draft_.write(header_.checksums_offset(), table);
  // The header is last: a file that was cut off before has zeros there and no magic.
  draft_.write(0, encode_token_header(header_));
  // Flushed before the rename, so that the final name never shows incomplete content after a loss of power.
  draft_.finish();
  draft_.publish(path_);
  return header_;
}

}  // namespace echelon
