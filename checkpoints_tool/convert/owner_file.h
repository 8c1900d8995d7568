#pragma once
#include "base/files/fs.h"

namespace echelon::tool {

/// Says which process works in a folder, so that no two do. Holds a file `owner` with host, process id, start
/// time and process_space(), made by link(2), which is atomic on network file systems too. The file of a
/// process of this machine that is gone is taken over; one without the space is of an earlier version, and
/// whose it is cannot be told.
class OwnerFile {
 public:
  /// Throws Error(kUsage) naming the owner when there is one, Error(kCheckpoint) when the folder cannot be
  /// written.
  explicit OwnerFile(const fs::Path& folder);
  OwnerFile(const OwnerFile&) = delete;
  OwnerFile& operator=(const OwnerFile&) = delete;
  ~OwnerFile();  ///< removes the file

 private:
  fs::Path path_;
};

}  // namespace echelon::tool
