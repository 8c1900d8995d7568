#include "checkpoint/write/new_file.h"

#include <fcntl.h>

#include <cerrno>

#include "base/files/disk.h"
#include "base/files/kill_point.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"

namespace echelon::checkpoint {

NewFile::NewFile(fs::Path path, std::uint64_t bytes) : path_(std::move(path)) {
  require_file_size_allowed(path_, bytes);
  fd_ = fs::open_own(path_, O_RDWR | O_CREAT | O_EXCL, Code::kCheckpoint);
  try {
    reserve_space(fd_, path_, bytes);
  } catch (...) {
    discard();  // no destructor runs after a constructor that throws
    throw;
  }
  const int direct = fs::disk().open(path_.c_str(), O_WRONLY | O_DIRECT | O_NOFOLLOW, 0);
  if (direct >= 0) direct_ = fs::Fd(direct);
}

NewFile::~NewFile() {
  if (!finished_) discard();
}

void NewFile::discard() noexcept {
  direct_ = fs::Fd();
  fd_ = fs::Fd();
  if (!path_.empty()) fs::disk().unlink(path_.c_str());
  path_.clear();  // a later file of that name belongs to another save
}

void NewFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  fs::write_at(fd_, offset, bytes, Code::kCheckpoint, path_);
}

void NewFile::write_bulk(std::uint64_t offset, std::span<const std::byte> bytes) {
  constexpr std::size_t kBorder = 4096;
  std::size_t done = 0;
  while (direct_.valid() && bytes.size() - done >= kBorder) {
    const std::size_t size = (bytes.size() - done) / kBorder * kBorder;
    const ssize_t n =
        fs::disk().pwrite(direct_.get(), bytes.data() + done, size, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EINVAL) {
      throw Error(Code::kCheckpoint, str("cannot write '", path_.string(), "': ", fs::reason(errno)));
    }
    done += n < 0 ? 0 : static_cast<std::size_t>(n);
    // A file system may accept O_DIRECT and refuse the write (EINVAL), or stop at an unaligned place: the
    // rest is written through the page cache.
    if (n <= 0 || done % kBorder != 0) direct_ = fs::Fd();
  }
  write(offset + done, bytes.subspan(done));
}

void NewFile::finish() {
  direct_.close(Code::kCheckpoint, path_);
  // Also after O_DIRECT writes: they bypass the page cache, but not the disk's own cache nor the file's
  // metadata. A failed fsync is final; Linux reports it once and may drop the pages (the "fsyncgate" of
  // 2018).
  fs::fsync(fd_, Code::kCheckpoint, path_);
  fd_.close(Code::kCheckpoint, path_);
  finished_ = true;
}

void NewFile::publish(const fs::Path& name) {
  // After the flush of the content: the final name means that everything in the file is durable.
  fs::rename(path_, name, Code::kCheckpoint);
  path_.clear();
  kill_point("named");
  fs::fsync_directory(name.parent_path(), Code::kCheckpoint);
}

}  // namespace echelon::checkpoint
