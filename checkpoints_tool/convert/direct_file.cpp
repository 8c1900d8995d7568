#include "checkpoints_tool/convert/direct_file.h"

#include <fcntl.h>

#include <cerrno>

#include "base/files/disk.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"

namespace echelon::tool {
namespace {

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

[[noreturn]] void fail(const char* doing, const fs::Path& path, int error) {
  throw Error(Code::kCheckpoint, str("cannot ", doing, " '", path.string(), "': ", fs::reason(error)));
}

}  // namespace

DirectFile::DirectFile(fs::Path path, std::uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  checkpoint::require_file_size_allowed(path_, padded(bytes));
  cached_ = fs::open_own(path_, O_RDWR | O_CREAT, Code::kCheckpoint);
  fd_ = fs::Fd(fs::disk().open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_DIRECT, 0));
  if (!fd_.valid()) {
    direct_ = false;
    fd_ = fs::open_own(path_, O_RDWR, Code::kCheckpoint);
  }
  checkpoint::reserve_space(fd_, path_, padded(bytes_));
}

void DirectFile::give_up_direct() {
  const std::lock_guard lock(giving_up_);
  if (!direct_) return;
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0)
    fail("change the way of writing", path_, errno);
  direct_ = false;  // last: a thread that sees it may rely on the rest
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t begin = offset;
  const auto size = static_cast<off_t>(bytes.size());
  while (!bytes.empty()) {
    const bool was_direct = direct_;
    const ssize_t n = fs::disk().pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && was_direct) {
      give_up_direct();
      continue;
    }
    if (n <= 0) fail("write", path_, n < 0 ? errno : EIO);  // retrying on 0 could loop forever
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  // Only a hint, here and below: finish() makes sure that the bytes are on disk.
  if (!direct_) (void)::sync_file_range(fd_.get(), static_cast<off_t>(begin), size, SYNC_FILE_RANGE_WRITE);
}

void DirectFile::read(std::uint64_t offset, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const bool was_direct = direct_;
    const ssize_t n = fs::disk().pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && was_direct) {
      give_up_direct();
      continue;
    }
    if (n < 0) fail("read", path_, errno);
    if (n == 0) fail("read", path_, EIO);  // not the end: the full size was reserved
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void DirectFile::write_piece(std::uint64_t offset, std::span<const std::byte> bytes) {
  constexpr std::size_t kWorthAHint = std::size_t{1} << 20;
  fs::write_at(cached_, offset, bytes, Code::kCheckpoint, path_);
  if (bytes.size() < kWorthAHint) return;
  (void)::sync_file_range(cached_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes.size()),
                          SYNC_FILE_RANGE_WRITE);
}

void DirectFile::read_piece(std::uint64_t offset, std::span<std::byte> bytes) {
  fs::read_at(cached_, offset, bytes, Code::kCheckpoint, path_);
}

void DirectFile::finish() {
  cached_.close(Code::kCheckpoint, path_);
  if (fs::disk().ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) fail("set the size of", path_, errno);
  fs::fsync(fd_, Code::kCheckpoint, path_);
  fd_.close(Code::kCheckpoint, path_);
}

}  // namespace echelon::tool
