#pragma once

/// The files and connections that this process may have open at once.
namespace echelon {

/// Raises the limit (ulimit -n) as far as the process may, up to 65536: ranks hold connections to each other
/// beside files. Never lowers it.
void allow_more_descriptors();

/// Is `fd`, opened just now, one of the last 64 (of the last quarter, where there are few)? Those are kept
/// back for files: who only listens to others must not take them.
[[nodiscard]] bool is_kept_for_files(int fd);

}  // namespace echelon
