#include "checkpoints_tool/convert/journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/checksum/crc32c.h"
#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "base/mutex.h"
#include "checkpoint/format/bytes.h"

namespace echelon::tool {
namespace {

using checkpoint::get;
using checkpoint::put;

// File: header, then records. Header: magic, length of the identity, identity, CRC of all that. Record: mark,
// number of parts, window, CRC of the window, CRCs of its parts, CRC of all that.
constexpr std::uint64_t kMagic = 0x314C4E524A504B45;  // "EKPJRNL1"
constexpr std::uint32_t kMark = 0x444E4957;           // "WIND"
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kRecordBytes = 20;
constexpr std::size_t kCrcBytes = 4;
constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

void seal(std::span<std::byte> bytes) {
  put(bytes, bytes.size() - kCrcBytes, crc32c(bytes.first(bytes.size() - kCrcBytes)));
}
bool is_sealed(std::span<const std::byte> bytes) {
  return get<std::uint32_t>(bytes, bytes.size() - kCrcBytes) == crc32c(bytes.first(bytes.size() - kCrcBytes));
}

std::vector<std::byte> encode_header(const std::string& identity) {
  std::vector<std::byte> bytes(kHeaderBytes + identity.size() + kCrcBytes);
  put(std::span(bytes), 0, kMagic);
  put(std::span(bytes), 8, static_cast<std::uint32_t>(identity.size()));
  checkpoint::put_text(bytes, kHeaderBytes, identity);
  seal(bytes);
  return bytes;
}

std::vector<std::byte> encode_record(const WindowRecord& record) {
  std::vector<std::byte> bytes(kRecordBytes + record.parts.size() * sizeof(std::uint32_t) + kCrcBytes);
  const std::span<std::byte> out(bytes);
  put(out, 0, kMark);
  put(out, 4, static_cast<std::uint32_t>(record.parts.size()));
  put(out, 8, record.window);
  put(out, 16, record.crc);
  for (std::size_t i = 0; i < record.parts.size(); ++i) put(out, kRecordBytes + 4 * i, record.parts[i]);
  seal(out);
  return bytes;
}

/// Size of the record at the front, 0 if there is no complete one.
std::size_t decode_record(std::span<const std::byte> bytes, WindowRecord& record) {
  if (bytes.size() < kRecordBytes + kCrcBytes || get<std::uint32_t>(bytes, 0) != kMark) return 0;
  const std::uint64_t parts = get<std::uint32_t>(bytes, 4);
  const std::uint64_t size = kRecordBytes + parts * sizeof(std::uint32_t) + kCrcBytes;
  if (size > bytes.size() || !is_sealed(bytes.first(size))) return 0;
  record.window = get<std::uint64_t>(bytes, 8);
  record.crc = get<std::uint32_t>(bytes, 16);
  for (std::size_t i = 0; i < parts; ++i)
    record.parts.push_back(get<std::uint32_t>(bytes, kRecordBytes + 4 * i));
  return size;
}

std::vector<std::byte> load(const fs::Fd& fd, const fs::Path& path) {
  struct stat info {};
  if (fs::disk().fstat(fd.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) > kMaxBytes)
    return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  fs::read_at(fd, 0, bytes, Code::kCheckpoint, path);
  return bytes;
}

}  // namespace

Journal::Journal(fs::Path path, const std::string& identity)
    : path_(std::move(path)), fd_(fs::open_own(path_, O_RDWR | O_CREAT, Code::kCheckpoint)) {
  const std::vector<std::byte> header = encode_header(identity);
  const std::vector<std::byte> bytes = load(fd_, path_);
  const bool ours = bytes.size() >= header.size() && std::equal(header.begin(), header.end(), bytes.begin());
  end_ = ours ? header.size() : 0;
  while (end_ != 0) {
    WindowRecord record;
    const std::size_t size = decode_record(std::span(bytes).subspan(end_), record);
    if (size == 0) break;
    end_ += size;
    earlier_[record.window] = std::move(record);
  }
  if (fs::disk().ftruncate(fd_.get(), static_cast<off_t>(end_)) != 0) {
    throw Error(Code::kCheckpoint, "cannot shorten '", path_.string(), "': ", fs::reason(errno));
  }
  if (!ours) {
    fs::write_at(fd_, 0, header, Code::kCheckpoint, path_);
    end_ = header.size();
  }
}

void Journal::append(const WindowRecord& record) {
  const std::vector<std::byte> bytes = encode_record(record);
  const Lock lock(appending_);
  fs::write_at(fd_, end_, bytes, Code::kCheckpoint, path_);
  end_ += bytes.size();
}

}  // namespace echelon::tool
