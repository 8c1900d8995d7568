#pragma once

#include "base/not_copied.h"

namespace echelon {

/// While it lives, PMIx_Initialized() returns 0 to every caller in this process. Open MPI 5 connects and
/// reads its rank only if PMIx looks uninitialized; otherwise it goes on with an empty name. Finalizing PMIx
/// for that time instead would let its server complete MPI's first fence without this rank. Not thread-safe.
class HiddenPmix : NotCopied {
 public:
  HiddenPmix();
  ~HiddenPmix();
};

}  // namespace echelon
