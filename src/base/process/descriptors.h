#pragma once

/// The files and connections that this process may have open at once.
namespace echelon {

/// Raises the limit (ulimit -n) as far as the process may, up to 65536: ranks hold connections to each other
/// beside files. Never lowers it.
void allow_more_descriptors();

/// Returns whether `fd`, opened just now, is one of the last 64 (of the last quarter, where there are few).
/// These last descriptors are kept for files; a listener must not use them.
[[nodiscard]] bool is_kept_for_files(int fd);

}  // namespace echelon
