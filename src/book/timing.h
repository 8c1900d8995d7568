#pragma once
#include "base/not_copied.h"
#include "model/kernels/kernels.h"

namespace echelon::book {

/// While it lives, every operation of ATen on CPU tensors and every kernel is timed: Books receives what it
/// would receive in a Recording, with Work::seconds, while everything is computed as usual. At most one at a
/// time; process-wide; any number of threads.
class Timing : NotCopied {
 public:
  Timing();
  ~Timing();

 private:
  std::uint64_t observer_;
};

/// The processor's kernels, each of which hands its duration to Books.
[[nodiscard]] const kernels::Tables& timed_kernels();

}  // namespace echelon::book
