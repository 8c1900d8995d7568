#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/files/fs.h"
#include "checkpoints_tool/convert/window_filler.h"

namespace echelon::tool {

/// Which windows of an output are written, in a file that survives a kill: opening it again gives the records
/// back. It is a hint and not a proof: whoever takes a window for done compares its bytes with the record, so
/// nothing depends on what reached the disk first. A torn end is cut off, a journal of another conversion is
/// begun anew. append() may be called from several threads. Throws Error(kCheckpoint).
class Journal {
 public:
  /// `identity`: text that says all that decides the output's bytes.
  Journal(fs::Path path, const std::string& identity);

  /// What earlier runs finished, by window.
  [[nodiscard]] const std::unordered_map<std::uint64_t, WindowRecord>& earlier() const { return earlier_; }
  void append(const WindowRecord& record);

 private:
  fs::Path path_;
  fs::Fd fd_;
  std::uint64_t end_ = 0;
  std::unordered_map<std::uint64_t, WindowRecord> earlier_;
  std::mutex appending_;
};

}  // namespace echelon::tool
