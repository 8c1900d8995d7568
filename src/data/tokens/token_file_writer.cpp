#include "data/tokens/token_file_writer.h"

#include <algorithm>
#include <cstring>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/own_file.h"

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
  set_header(options);
}

TokenFileWriter::TokenFileWriter(std::filesystem::path path, const TokenFileOptions& options,
                                 const fs::Path& draft, const std::optional<TokenFileMark>& mark)
    : path_(std::move(path)),
      draft_(
          draft,
          mark ? kTokenHeaderBytes + mark->tokens * token_width_for(options.vocab_size,
                                                                    (options.flags & kDocumentsAreChats) != 0)
               : 0,
          Code::kData) {
  set_header(options);
  ends_draft_.emplace(draft.string() + ".ends", mark ? sizeof(std::uint64_t) * mark->documents : 0,
                      Code::kData);
  if (mark) read_back(*mark);
}

void TokenFileWriter::set_header(const TokenFileOptions& options) {
  header_.vocab_size = options.vocab_size;
  header_.tokenizer_digest = options.tokenizer_digest;
  header_.flags = options.flags;
  header_.token_width = token_width_for(options.vocab_size, header_.holds_chats());
  pending_.reserve(kBufferBytes + kTokenBlockBytes);
}

void TokenFileWriter::add_chat(std::span<const std::int32_t> ids, const std::vector<bool>& trained) {
  if (ids.empty()) throw Error(Code::kData, "token file '", path_.string(), "': a document has no tokens");
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= header_.vocab_size) {
      throw Error(Code::kData, "token file '", path_.string(), "': token id ", id, " is outside [0, ",
                  header_.vocab_size, "), the vocabulary");
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

void TokenFileWriter::read_back(const TokenFileMark& mark) {
  header_.token_count = mark.tokens;
  header_.max_token = mark.max_token;
  ends_.resize(mark.documents);
  saved_ends_ = mark.documents;
  fs::read_at(fs::open_own_to_read(ends_draft_->path(), Code::kData), 0,
              std::as_writable_bytes(std::span(ends_)), Code::kData, ends_draft_->path());
  const fs::Fd fd = fs::open_own_to_read(draft_.path(), Code::kData);
  for (std::uint64_t left = mark.tokens * header_.token_width; left > 0;) {
    pending_.resize(std::min<std::uint64_t>(kBufferBytes, left));
    fs::read_at(fd, kTokenHeaderBytes + written_, pending_, Code::kData, draft_.path());
    left -= pending_.size();
    sum_blocks(pending_.size() / kTokenBlockBytes * kTokenBlockBytes);
  }
  if (checksum() != mark.checksum)
    throw Error(Code::kData, "'", draft_.path().string(), "' does not hold what was saved");
}

TokenFileMark TokenFileWriter::save() {
  flush_blocks(false);
  draft_.write(kTokenHeaderBytes + written_, pending_);  // a part of a block, which stays pending too
  draft_.flush();
  const auto ends = std::as_bytes(std::span(ends_).subspan(saved_ends_));
  ends_draft_->write(sizeof(std::uint64_t) * saved_ends_, ends);
  ends_draft_->flush();
  saved_ends_ = ends_.size();
  return {header_.token_count, ends_.size(), header_.max_token, checksum()};
}

std::uint32_t TokenFileWriter::checksum() const {
  return crc32c(std::as_bytes(std::span(ends_)),
                crc32c(pending_, crc32c(std::as_bytes(std::span(block_crcs_)))));
}

/// The first `whole` bytes of what is pending are in the file.
void TokenFileWriter::sum_blocks(std::size_t whole) {
  const auto bytes = std::span<const std::byte>(pending_).first(whole);
  for (std::size_t at = 0; at < whole; at += kTokenBlockBytes) {
    block_crcs_.push_back(crc32c(bytes.subspan(at, std::min<std::size_t>(kTokenBlockBytes, whole - at))));
  }
  written_ += whole;
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(whole));
}

void TokenFileWriter::flush_blocks(bool last) {
  const std::size_t whole = last ? pending_.size() : pending_.size() / kTokenBlockBytes * kTokenBlockBytes;
  draft_.write(kTokenHeaderBytes + written_, std::span<const std::byte>(pending_).first(whole));
  sum_blocks(whole);
}

TokenFileHeader TokenFileWriter::finish() {
  if (ends_.empty())
    throw Error(Code::kData, "token file '", path_.string(), "' would be empty: no documents");
  if ((header_.holds_pairs() || header_.holds_preferences()) && ends_.size() % 2 != 0)
    throw Error(Code::kData, "token file '", path_.string(), "' would end with half a pair");
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
