#include "checkpoint/new_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/disk.h"
#include "base/str.h"

namespace echelon::checkpoint {

NewFile::NewFile(fs::Path path, std::uint64_t bytes) : path_(std::move(path)) {
  rlimit limit{};
  // Looked at first because running into the limit raises a signal that ends the process.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
    throw Error(Code::kCheckpoint,
                str("cannot write '", path_.string(), "': it needs ", human_bytes(bytes),
                    ", this process may write files of ", human_bytes(limit.rlim_cur), " (ulimit -f)"));
  }
  fd_ = fs::open(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, Code::kCheckpoint);
  try {
    reserve(bytes);
  } catch (...) {
    fs::disk().unlink(path_.c_str());  // the destructor does not run for an object that was never complete
    throw;
  }
}

void NewFile::reserve(std::uint64_t bytes) {
  if (bytes == 0) return;
  int error = 0;
  do {
    error = fs::disk().fallocate(fd_.get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  // Not every file system can reserve (NFS 3); there the size is set and a full disk shows at a later write.
  if (error == EOPNOTSUPP || error == ENOSYS)
    error = fs::disk().ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (error != 0) {
    throw Error(Code::kCheckpoint, str("cannot reserve ", human_bytes(bytes), " for '", path_.string(),
                                       "': ", fs::reason(error)));
  }
}

NewFile::~NewFile() {
  if (!finished_) fs::disk().unlink(path_.c_str());
}

void NewFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  fs::write_at(fd_, offset, bytes, Code::kCheckpoint, path_);
}

void NewFile::finish() {
  fs::fsync(fd_, Code::kCheckpoint, path_);
  fd_.close(Code::kCheckpoint, path_);
  finished_ = true;
}

}  // namespace echelon::checkpoint
