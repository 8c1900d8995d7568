#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "app/doctor/finding.h"

namespace echelon::app::doctor {

/// The behavior of a file system in one folder, measured with temporary files. The texts `writing` to
/// `renaming` say what failed and why; empty means no fault.
struct FolderFacts {
  std::string folder;  ///< the folder probed: the requested one or its nearest existing parent
  std::string kind;    ///< "nfs", "lustre", "ext4", "tmpfs" ...
  std::uint64_t available_bytes = 0;
  std::string writing;   ///< creating a folder, creating and writing a file
  std::string locking;   ///< flock and fcntl locks
  std::string syncing;   ///< fsync of a file and of its folder
  std::string renaming;  ///< replacing a file by rename, as a commit does; not tried if syncing fails
  std::uint64_t bytes = 0;
  double write_s = 0;  ///< seconds to write `bytes`, including fsync
  double fsync_s = 0;  ///< seconds to fsync a small file and its folder
};

/// Does not throw for faults of the file system: they are in the result. `bytes`: amount to write when
/// measuring the speed; less is written if there is little room.
[[nodiscard]] FolderFacts probe_folder(const std::filesystem::path& folder, std::uint64_t bytes);

/// `path` if it exists, else its nearest existing parent.
[[nodiscard]] std::filesystem::path nearest_folder(const std::filesystem::path& path);

/// How the names of the doctor's own folders begin.
inline constexpr const char* kProbe = ".echelon-doctor-";

/// Writes `bytes` bytes to a new file and syncs it. Returns the duration in seconds. Throws
/// Error(kEnvironment).
double timed_write(const std::filesystem::path& file, std::uint64_t bytes);

/// The findings folder, folder_locks, folder_fsync and folder_rename. Only `folder` if the folder is not
/// writable; no folder_rename if syncing fails. `shared`: several nodes must see the folder.
[[nodiscard]] std::vector<Finding> judge_folder(const FolderFacts& facts, bool shared);

}  // namespace echelon::app::doctor
