#include "checkpoints_tool/convert/direct_file.h"

#include <fcntl.h>

#include <cerrno>

#include "base/files/disk.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"

namespace echelon::tool {

DirectFile::DirectFile(fs::Path path, std::uint64_t bytes)
    : path_(std::move(path)),
      bytes_(bytes),
      fd_(fs::open_own(path_, O_RDWR | O_CREAT, Code::kCheckpoint)),
      direct_(path_, O_RDWR, Code::kCheckpoint) {
  fs::reserve_space(fd_, path_, bytes_, Code::kCheckpoint);
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::size_t done = direct_.write(offset, bytes);
  write_piece(offset + done, bytes.subspan(done));
}

void DirectFile::read(std::uint64_t offset, std::span<std::byte> bytes) {
  const std::size_t done = direct_.read(offset, bytes);
  read_piece(offset + done, bytes.subspan(done));
}

void DirectFile::write_piece(std::uint64_t offset, std::span<const std::byte> bytes) {
  constexpr std::size_t kWorthAHint = std::size_t{1} << 20;
  fs::write_at(fd_, offset, bytes, Code::kCheckpoint, path_);
  if (bytes.size() < kWorthAHint) return;
  // Only a hint: finish() makes sure that the bytes are on disk.
  (void)::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes.size()),
                          SYNC_FILE_RANGE_WRITE);
}

void DirectFile::read_piece(std::uint64_t offset, std::span<std::byte> bytes) {
  fs::read_at(fd_, offset, bytes, Code::kCheckpoint, path_);
}

void DirectFile::finish() {
  direct_.close();
  // A file left by an interrupted conversion may be longer.
  if (fs::disk().ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0)
    throw Error(Code::kCheckpoint, "cannot set the size of '", path_.string(), "': ", fs::reason(errno));
  fs::fsync(fd_, Code::kCheckpoint, path_);
  fd_.close(Code::kCheckpoint, path_);
}

}  // namespace echelon::tool
