#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/files/direct_io.h"
#include "base/files/fs.h"

/// How files are made that readers must find whole: under a name of their own, then renamed.
namespace echelon::fs {

/// "<path>.<eight random hex digits>.tmp": the name under which a file is made that is to become `path`.
[[nodiscard]] Path draft_name(const Path& path);
/// Removes the drafts that killed processes left in `folder`; only for who has the folder to himself. What
/// cannot be removed stays.
void remove_drafts(const Path& folder) noexcept;

/// Reserves `bytes` on the disk for the open file `path`, so that a full disk, or a limit on this process's
/// files (ulimit -f, whose signal would end it), shows now. Where the file system cannot reserve (NFS 3) the
/// size is set and a full disk shows at a later write. Throws Error(code).
void reserve_space(const Fd& fd, const Path& path, std::uint64_t bytes, Code code);

/// A new file, written at any offsets. It is removed with this object unless rename() or keep() came before.
/// Any failure is final: no write or flush is tried again. Throws Error(code). Not thread-safe.
class NewFile {
 public:
  /// Creates `path`, which must not exist, not as a link either.
  NewFile(Path path, Code code);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  [[nodiscard]] const Path& path() const { return path_; }

  void reserve(std::uint64_t bytes) { reserve_space(fd_, path_, bytes, code_); }
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// The same for megabytes that nobody reads soon, by DirectIo, whose rules for `offset` and the address
  /// apply.
  void write_bulk(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Closes a file that need not survive the machine.
  void close();
  /// Flushes to disk and closes. The folder still needs a flush for the name to be durable.
  void finish();
  /// After close() or finish(): gives the file another name in its folder, in the place of what has that
  /// name.
  void rename(const Path& name);
  /// After finish(): rename(), and a flush of the folder. When that flush fails the file stays: others may
  /// have seen the name.
  void publish(const Path& name);
  /// After close() or finish(): leaves the file under the name it has.
  void keep() { path_.clear(); }
  /// Closes and removes the file now.
  void discard() noexcept;

 private:
  Path path_;  ///< empty: renamed, kept or discarded
  Code code_;
  Fd fd_;
  std::optional<DirectIo> direct_;  ///< from the first write_bulk() on
};

}  // namespace echelon::fs
