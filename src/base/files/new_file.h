#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/files/direct_io.h"
#include "base/files/fs.h"
#include "base/not_copied.h"

/// Files that readers must see complete or not at all: written under a draft's name, then renamed.
namespace echelon::fs {

/// "<path>.<eight random hex digits>.tmp": the name of a draft that is to become `path` by rename.
[[nodiscard]] Path draft_name(const Path& path);
/// Removes the drafts that killed processes left in `folder`. The caller must be the only user of the folder.
/// Files that cannot be removed stay.
void remove_drafts(const Path& folder) noexcept;

/// Reserves `bytes` on the disk for the open file `path`, so that a full disk is detected now. So is a limit
/// on file sizes (ulimit -f), because exceeding it raises a signal that ends the process. Where the file
/// system cannot reserve (NFS 3) the size is set, and a full disk is detected at a later write. Throws
/// Error(code).
void reserve_space(const Fd& fd, const Path& path, std::uint64_t bytes, Code code);

/// A new file, written at any offsets. The destructor removes it unless rename(), publish() or keep() was
/// called. Any failure is final: no write or flush is ever retried. Throws Error(code). Not thread-safe.
class NewFile : NotCopied {
 public:
  /// Creates `path`, which must not exist, not even as a symbolic link.
  NewFile(Path path, Code code);
  /// Goes on with the file `path`, which may be missing, cut or filled with zeros to `bytes`. The destructor
  /// never removes it.
  NewFile(Path path, std::uint64_t bytes, Code code);
  ~NewFile();

  [[nodiscard]] const Path& path() const { return path_; }

  void reserve(std::uint64_t bytes) { reserve_space(fd_, path_, bytes, code_); }
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Writes behind what append() has written so far; the first text begins the file.
  void append(std::string_view text);
  /// Writes large data that is not read soon: bypasses the page cache where the file system allows it
  /// (DirectIo). `offset` and address must be multiples of kDirectAlignment.
  void write_bulk(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Flushes what is written to disk.
  void flush();
  /// Closes without a flush: the file may be lost when the machine fails.
  void close();
  /// Flushes to disk and closes. The folder still needs a flush for the name to be durable.
  void finish();
  /// Renames the file within its folder and replaces a file or link of that name, but no pipe or device. Call
  /// it after close() or finish().
  void rename(const Path& name);
  /// Calls rename() and flushes the folder. If that flush fails the file stays, because others may have seen
  /// the name. Call it after finish().
  void publish(const Path& name);
  /// Keeps the file under its present name. Call it after close() or finish().
  void keep() { path_.clear(); }
  /// Closes and removes the file now.
  void discard() noexcept;

 private:
  Path path_;  ///< empty: renamed, kept or discarded
  bool stays_ = false;
  Code code_;
  Fd fd_;
  std::uint64_t appended_ = 0;      ///< bytes
  std::optional<DirectIo> direct_;  ///< from the first write_bulk() on
};

/// Throws Error(kUsage) if `path`, which a user names for an output, is a folder, a link, a pipe or a device,
/// or the file `input`, or is in no folder. Another file may be replaced. Empty: no such output.
void require_output(const Path& path, const Path& input = {});

/// Writes a draft, fsyncs, renames it over `path`, fsyncs the folder: readers see the old or the
/// new text, whole. A link at `path` is replaced, not written through.
void publish_file(const Path& path, std::string_view text, Code code);
/// Does what publish_file() does without the fsyncs: for a text that need not survive the machine.
void replace_file(const Path& path, std::string_view text, Code code);

}  // namespace echelon::fs
