#pragma once

namespace echelon {

/// While it lives, PMIx_Initialized() is 0 in this process, whoever asks: Open MPI 5 connects and learns its
/// rank only where that is so, and else computes with an empty name. Leaving PMIx for that time instead would
/// let its server end MPI's first fence without this rank. Not thread-safe.
class HiddenPmix {
 public:
  HiddenPmix();
  HiddenPmix(const HiddenPmix&) = delete;
  HiddenPmix& operator=(const HiddenPmix&) = delete;
  ~HiddenPmix();
};

}  // namespace echelon
