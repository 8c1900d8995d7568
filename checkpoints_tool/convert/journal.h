#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/files/fs.h"
#include "base/mutex.h"
#include "checkpoints_tool/convert/window_filler.h"

namespace echelon::tool {

/// Records which windows of an output are written, in a file that survives a kill; opening it again returns
/// the records. It is a hint and not a proof: a window's bytes are compared with its record before it
/// counts as done, so the order of writes on disk does not matter. An incomplete last record is cut off; a
/// journal of another conversion is restarted. append() may be called from several threads. Throws
/// Error(kCheckpoint).
class Journal {
 public:
  /// `identity`: text that determines the output's bytes.
  Journal(fs::Path path, const std::string& identity);

  /// The records of earlier runs, by window.
  [[nodiscard]] const std::unordered_map<std::uint64_t, WindowRecord>& earlier() const { return earlier_; }
  void append(const WindowRecord& record);

 private:
  fs::Path path_;
  fs::Fd fd_;
  std::uint64_t end_ ECHELON_GUARDED_BY(appending_) = 0;
  std::unordered_map<std::uint64_t, WindowRecord> earlier_;
  Mutex appending_;
};

}  // namespace echelon::tool
