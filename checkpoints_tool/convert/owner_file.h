#pragma once
#include <string>

#include "base/files/fs.h"

namespace echelon::tool {

/// Ensures that only one process works in a folder. Holds a file `owner` with host, process id, start time
/// and process_space(), created by link(2), which is atomic on network file systems, too. The file of an
/// ended process of this machine is taken over. The owner of a file without the space cannot be identified.
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

/// "process 12 on n1", which works in the folder, or may; empty: none does, or none that can be told.
[[nodiscard]] std::string worker_in(const fs::Path& folder);

}  // namespace echelon::tool
