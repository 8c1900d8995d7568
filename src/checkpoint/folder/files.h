#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/files/fs.h"

/// Opening files of a checkpoint folder that somebody else may have put there.
namespace echelon::checkpoint {

/// An open regular file and its size.
struct InputFile {
  fs::Fd fd;
  std::uint64_t bytes = 0;
};

/// Opens for reading; refuses links, pipes, devices and folders, and never blocks. Throws Error(kCheckpoint).
[[nodiscard]] InputFile open_input(const fs::Path& path);

/// Content of a small file, opened as above; more than `max_bytes` is an error.
[[nodiscard]] std::string read_input(const fs::Path& path, std::uint64_t max_bytes);

/// Is there an entry of that name, of whatever kind? A dangling link counts. These four throw
/// Error(kCheckpoint) when the system cannot tell.
[[nodiscard]] bool entry_exists(const fs::Path& path);
/// A folder, or a link to one.
[[nodiscard]] bool is_folder(const fs::Path& path);
/// A folder itself, not a link to one.
[[nodiscard]] bool is_real_folder(const fs::Path& path);
/// The absolute path of the folder itself: of the one that a link leads to, unless it does not exist.
[[nodiscard]] fs::Path real_path(const fs::Path& folder);
/// The time of the last change of anything in a tree, so many `levels` of folders deep, in seconds since
/// 1970; 0: there is no entry.
[[nodiscard]] std::int64_t last_change(const fs::Path& path, int levels);
/// What is in the folder; nothing if it does not exist yet.
[[nodiscard]] std::vector<fs::Path> entries_of(const fs::Path& folder);

}  // namespace echelon::checkpoint
