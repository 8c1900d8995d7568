#pragma once
#include <string>
#include <vector>

#include "base/files/fs.h"
#include "base/not_copied.h"

namespace echelon::tool {

/// An output that takes long to make: it appears whole or not at all, and the next run with the same identity
/// continues the work of a killed one. The unfinished output lies in the folder "<path>.partial-<id>", where
/// <id> comes from the identity, so another conversion to the same place never meets it. The folder holds
/// `output`, which gets its name at the end, `journal`, and `owner`, which the process that works in it has
/// locked.
class ResumableOutput : NotCopied {
 public:
  /// Throws Error(kUsage) as checked_output() does, when another process is making this output, and for an
  /// unfinished output of another user unless `allow_foreign`.
  ResumableOutput(fs::Path path, const fs::Path& checkpoint, const std::string& identity, bool allow_foreign);
  ~ResumableOutput();  ///< removes what is unfinished, unless it is to be kept

  [[nodiscard]] const fs::Path& folder() const { return folder_; }
  [[nodiscard]] fs::Path output() const { return folder_ / "output"; }
  [[nodiscard]] fs::Path journal() const { return folder_ / "journal"; }
  /// Folders that conversions of other checkpoints or with other options left beside this output.
  [[nodiscard]] std::vector<fs::Path> strangers() const;

  /// Makes a folder of this output, or takes the one that an earlier run made; refuses links and, unless
  /// they are allowed, folders of other users. Throws Error(kUsage).
  void make_folder(const fs::Path& folder) const;
  /// Keeps everything for a later run.
  void keep() { kept_ = true; }
  /// The content is durable already; gives it its name and removes the rest.
  void publish();

 private:
  fs::Path final_;
  fs::Path folder_;
  bool allow_foreign_;
  fs::Fd lock_;
  bool kept_ = false;
};

/// "process 12 on n1", which works in the folder; empty: none does, or none that can be told.
[[nodiscard]] std::string worker_in(const fs::Path& folder);

}  // namespace echelon::tool
