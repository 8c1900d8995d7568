#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace echelon::test {

class LateOperation;

/// What the late communicators of a rank share.
struct Lateness {
  int left_out = -1;          ///< number of the operation whose result never arrives
  int issued = 0;             ///< operations so far
  int taken = 0;              ///< of those, waited for
  std::string left_out_as;    ///< what left_out was: "all-gather layer.3"
  bool can_be_missed = true;  ///< no later operation goes on with the result of left_out
  std::vector<std::weak_ptr<LateOperation>> reductions;  ///< of all groups
};

/// Another communicator whose results come as late as they can: as on a GPU, where the host goes on at once,
/// a buffer holds nothing of use until its operation is waited for. Outputs are poisoned (all bits set: no
/// number) when an operation is issued and get their result in wait(), not before, whatever else is waited
/// for; only a later reduction of the same bytes, in whichever group, goes on with it, as in one lane. A
/// buffer that its owner writes to meanwhile is a std::logic_error. `inner` and `lateness` outlive it.
[[nodiscard]] std::unique_ptr<Communicator> make_late(Communicator& inner, Lateness& lateness);

}  // namespace echelon::test
