#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

/// What a file system does in one folder, tried with files of its own that are removed again. Each text is
/// empty where all is well, and else says what failed and why.
struct FolderFacts {
  std::string folder;  ///< the one tried: the one asked for, or the nearest above it that exists
  std::string kind;    ///< "nfs", "lustre", "ext4", "tmpfs" ...
  std::uint64_t available_bytes = 0;
  std::string writing;   ///< making a folder, creating and writing a file
  std::string locking;   ///< flock and fcntl locks
  std::string syncing;   ///< fsync of a file and of a folder
  std::string renaming;  ///< replacing a file by rename, as a commit does; not tried where syncing fails
  std::uint64_t bytes = 0;
  double write_s = 0;  ///< of `bytes`, fsync included
  double fsync_s = 0;  ///< of a small file and its folder
};

/// Never throws for what the file system does. `bytes`: how much is written to learn its speed, less
/// where there is little room.
[[nodiscard]] FolderFacts probe_folder(const std::filesystem::path& folder, std::uint64_t bytes);

/// The nearest folder at or above `path` that exists.
[[nodiscard]] std::filesystem::path nearest_folder(const std::filesystem::path& path);

/// A folder with a name of its own below `folder`, removed with all in it at the end. Throws
/// Error(kEnvironment) with the reason when it cannot be made; the folder is named by the caller.
class ProbeFolder {
 public:
  explicit ProbeFolder(const std::filesystem::path& folder);
  ProbeFolder(const ProbeFolder&) = delete;
  ProbeFolder& operator=(const ProbeFolder&) = delete;
  ~ProbeFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Writes `bytes` bytes to a new file and syncs it; seconds. Throws Error(kEnvironment).
double timed_write(const std::filesystem::path& file, std::uint64_t bytes);

/// One finding each: folder, folder_locks, folder_fsync, folder_rename; in a folder that cannot be written
/// only the first, in one that does not sync not the last. `shared`: several nodes must see it.
[[nodiscard]] std::vector<Finding> judge_folder(const FolderFacts& facts, bool shared);

}  // namespace echelon::app::doctor
