#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/files/fs.h"

/// Files that this program writes in run, checkpoint and output folders, where others may have placed
/// something before. All of them are opened here, or are new (new_file.h).
namespace echelon::fs {

/// open(2) of such a file for writing: never through a symbolic link, never waiting for a pipe. An existing
/// entry must be a regular file with one hard link, because a second link may be any file of the user.
/// O_TRUNC takes effect after this check; with O_EXCL nothing may exist. Throws Error(code).
[[nodiscard]] Fd open_own(const Path& path, int flags, Code code, unsigned mode = 0644);

/// Opens a file like open_own(), for reading; several hard links are allowed.
[[nodiscard]] Fd open_own_to_read(const Path& path, Code code);
/// Content of such a file; more than `max_bytes` is an error.
[[nodiscard]] std::string read_own_file(const Path& path, std::uint64_t max_bytes, Code code);

/// Locks such a file with flock(2), for which it waits `patience`. Returns 0, or the error: EWOULDBLOCK if
/// another process held the lock all the time. `waiting` is called once, before the first wait.
[[nodiscard]] int lock_own(const Fd& file, std::chrono::milliseconds patience,
                           const std::function<void()>& waiting);
/// Returns whether another process has locked such a file.
[[nodiscard]] bool is_locked(const Fd& file);
/// Makes describe_this_process() the content of such a file, which this process has locked.
void sign_lock(const Fd& file, const Path& path, Code code);

/// kRandomDigits random lower-case hex digits.
inline constexpr std::size_t kRandomDigits = 8;
[[nodiscard]] std::string random_hex();

/// Throws Error(code) unless the folder `path` belongs to this process's effective user. A link to a folder
/// has to be that user's or root's, too. `remedy` ends the message: "set run.allow_foreign_folder=true".
void require_own_folder(const Path& path, Code code, std::string_view remedy);
/// Throws as well where a group or all users may write to the folder. A private group may: one of the user's
/// name without other members, as many systems make for each user. Access lists are not read.
void require_unshared_folder(const Path& path, Code code, std::string_view remedy);

}  // namespace echelon::fs
