#pragma once
#include <memory>
#include <string>

#include "base/files/fs.h"
#include "base/not_copied.h"

/// Folders that are found through a handle instead of through their path, because somebody else may put
/// another folder, or a link, in their place. The real Disk asks here where a path is to be looked up, so
/// that nobody else has to know, and messages keep the path. A path that names the folder itself is looked up
/// as always; what lies below it is not.
namespace echelon::fs {

/// From now on everything below `folder` is found from `handle`, an open folder, on all threads. New files
/// and folders there are for this user alone (modes 0700 and 0600). The handle replaces an earlier one of
/// that path. Lasts until the process ends: a thread that hangs in a system call may outlive everything else.
/// Thread-safe.
void pin_private(const Path& folder, Fd handle);

/// Does so for this thread, while this object lives, without the modes. `handle` must outlive it.
class PinnedHere : NotCopied {
 public:
  PinnedHere(const Path& folder, const Fd& handle);
  ~PinnedHere();

 private:
  friend struct Place;
  std::string folder_;
  int handle_;
  const PinnedHere* before_;
};

/// The place where a path is looked up: the arguments of openat(2) and its like.
struct Place {
  explicit Place(const char* whole);
  int from;
  const char* path;
  unsigned modes = 07777;  ///< bits that something made there may have

 private:
  bool take(const std::string& folder, int handle, const char* whole);
  std::shared_ptr<const Fd> kept_;  ///< stays open meanwhile
};

}  // namespace echelon::fs
