#pragma once
#include <cstdint>

#include "base/not_copied.h"

namespace echelon::app {

/// While it lives, the recording thread stands for `threads` threads: a tensor that it allocates within a
/// parallel region counts once for each. Needs HostMemory. One object at a time; single-threaded.
class OneForAll : NotCopied {
 public:
  explicit OneForAll(int threads);
  ~OneForAll();

  /// Most bytes of CPU tensors since the beginning or the last reset_peak().
  [[nodiscard]] static std::int64_t peak_bytes();
  static void reset_peak();
};

}  // namespace echelon::app
