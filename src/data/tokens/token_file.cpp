#include "data/tokens/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

static_assert(std::endian::native == std::endian::little, "token arrays are used as they lie in the file");

constexpr std::uint64_t kStride = std::uint64_t{1} << 18;  // ends of documents read at once

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& text) {
  throw Error(Code::kData, "token file '", path.string(), "' ", text);
}

/// Opens a regular file; `bytes` receives its size.
fs::Fd open_regular(const std::filesystem::path& path, std::uint64_t& bytes) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && errno == ENOENT) {
    refuse(path,
           "does not exist: make it with `echelon prepare` or correct its path (data.path, "
           "data.validation.path)");
  }
  // O_NONBLOCK: a pipe of that name must not hang the job.
  fs::Fd fd = fs::open(path, O_RDONLY | O_NONBLOCK, Code::kData);
  if (::fstat(fd.get(), &info) != 0) refuse(path, str("cannot be examined: ", fs::reason(errno)));
  if (S_ISDIR(info.st_mode)) refuse(path, "is a folder: name the .tok file in it");
  if (!S_ISREG(info.st_mode)) refuse(path, "is not a regular file");
  bytes = static_cast<std::uint64_t>(info.st_size);
  return fd;
}

/// `to` receives the ids as they lie in the file; returns the largest.
template <class Id>
std::uint64_t widen(const std::byte* from, std::span<std::int64_t> to) {
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    to[i] = static_cast<std::int64_t>(id);
    largest = std::max<std::uint64_t>(largest, id);
  }
  return largest;
}

/// Takes the bit of trained tokens from the ids of a chat; returns the largest.
std::uint64_t take_bits(std::span<std::int64_t> ids, std::uint32_t width, std::vector<bool>* trained) {
  const std::int64_t bit = std::int64_t{1} << (8 * width - 1);
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (trained != nullptr) (*trained)[i] = (ids[i] & bit) != 0;
    ids[i] &= ~bit;
    largest = std::max(largest, ids[i]);
  }
  return static_cast<std::uint64_t>(largest);
}

}  // namespace

TokenFile::TokenFile(std::filesystem::path path) : path_(std::move(path)) {
  std::uint64_t actual_bytes = 0;
  fd_ = open_regular(path_, actual_bytes);
  std::array<std::byte, kTokenHeaderBytes> bytes{};
  const auto head = std::span(bytes).first(std::min<std::uint64_t>(actual_bytes, kTokenHeaderBytes));
  fs::read_at(fd_, 0, head, Code::kData, path_);
  header_ = decode_token_header(head, actual_bytes, path_);
  block_crcs_.resize(header_.block_count());
  const auto table = std::as_writable_bytes(std::span(block_crcs_));
  fs::read_at(fd_, header_.checksums_offset(), table, Code::kData, path_);
  if (crc32c(table) != header_.checksums_crc) {
    refuse(path_, "is damaged: its block checksums do not match their checksum; copy or prepare it again");
  }
}

void TokenFile::read_verified(std::uint64_t offset, std::span<std::byte> bytes) const {
  // Whole blocks are read, since only a block has a checksum.
  const std::uint64_t body_end = header_.checksums_offset();
  const std::uint64_t first_block = (offset - kTokenHeaderBytes) / kTokenBlockBytes;
  const std::uint64_t begin = kTokenHeaderBytes + first_block * kTokenBlockBytes;
  const std::uint64_t blocks = (offset + bytes.size() - begin + kTokenBlockBytes - 1) / kTokenBlockBytes;
  const std::uint64_t end = std::min(begin + blocks * kTokenBlockBytes, body_end);
  // Not a vector: it would clear what the read overwrites.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(end - begin);
  const std::span<std::byte> whole(buffer.get(), end - begin);
  fs::read_at(fd_, begin, whole, Code::kData, path_);
  for (std::uint64_t b = 0; b < blocks; ++b) {
    const std::uint64_t at = b * kTokenBlockBytes;
    const auto block = whole.subspan(at, std::min<std::uint64_t>(kTokenBlockBytes, whole.size() - at));
    if (crc32c(block) != block_crcs_[first_block + b]) {
      refuse(path_,
             str("is damaged: block ", first_block + b, " (bytes ", begin + at, " to ",
                 begin + at + block.size(), ") does not match its checksum; copy or prepare it again"));
    }
  }
  std::memcpy(bytes.data(), buffer.get() + (offset - begin), bytes.size());
}

void TokenFile::read(std::uint64_t first, std::span<std::int64_t> ids, std::vector<bool>* trained) const {
  if (trained != nullptr) {
    if (!header_.holds_chats()) refuse(path_, "does not tell which tokens are trained");
    trained->assign(ids.size(), false);
  }
  if (ids.empty()) return;
  if (first > header_.token_count || ids.size() > header_.token_count - first) {
    refuse(path_,
           str("has ", header_.token_count, " tokens; ", ids.size(), " were requested from token ", first));
  }
  const auto raw = std::make_unique_for_overwrite<std::byte[]>(ids.size() * header_.token_width);
  read_verified(kTokenHeaderBytes + first * header_.token_width,
                {raw.get(), ids.size() * header_.token_width});
  std::uint64_t largest =
      header_.token_width == 2 ? widen<std::uint16_t>(raw.get(), ids) : widen<std::uint32_t>(raw.get(), ids);
  if (header_.holds_chats()) largest = take_bits(ids, header_.token_width, trained);
  // A checksum proves that the bytes are as written; this check proves that the id is valid, before it
  // indexes an embedding.
  if (largest > header_.max_token) {
    refuse(path_, str("holds token id ", largest, " after token ", first, ", above its stated largest id ",
                      header_.max_token, ": prepare the data again"));
  }
}

TokenFile::Range TokenFile::document(std::uint64_t index) const {
  if (index >= header_.document_count) {
    refuse(path_, str("has ", header_.document_count, " documents; number ", index, " was requested"));
  }
  std::array<std::uint64_t, 2> ends{};
  const std::uint64_t count = index == 0 ? 1 : 2;
  const auto wanted = std::span(ends).last(count);
  read_verified(header_.documents_offset() + 8 * (index + 1 - count), std::as_writable_bytes(wanted));
  if (ends[0] >= ends[1] || ends[1] > header_.token_count) {
    refuse(path_, str("has invalid borders of document ", index, ": prepare the data again"));
  }
  return {ends[0], ends[1]};
}

void TokenFile::read_ends(std::uint64_t first, std::span<std::uint64_t> ends) const {
  if (ends.empty()) return;
  if (first > header_.document_count || ends.size() > header_.document_count - first)
    refuse(path_,
           str("has ", header_.document_count, " documents; ", ends.size(), " were requested from ", first));
  read_verified(header_.documents_offset() + 8 * first, std::as_writable_bytes(ends));
  const bool rising = std::adjacent_find(ends.begin(), ends.end(), std::greater_equal<>()) == ends.end();
  const bool whole = first + ends.size() < header_.document_count || ends.back() == header_.token_count;
  if (!rising || !whole || ends.back() > header_.token_count)
    refuse(path_, "has document borders out of order: prepare the data again");
}

void TokenFile::for_each_document(const std::function<void(const Range&)>& each) const {
  std::vector<std::uint64_t> ends(std::min(kStride, header_.document_count));
  std::uint64_t begin = 0;
  for (std::uint64_t at = 0; at < header_.document_count; at += kStride) {
    const auto part = std::span(ends).first(std::min(kStride, header_.document_count - at));
    read_verified(header_.documents_offset() + 8 * at, std::as_writable_bytes(part));
    for (const std::uint64_t end : part) {
      if (end <= begin) refuse(path_, "has document borders out of order: prepare the data again");
      each({begin, end});
      begin = end;
    }
  }
  if (begin != header_.token_count)
    refuse(path_, "has tokens outside of every document: prepare the data again");
}

}  // namespace echelon
