#pragma once
#include <string>
#include <vector>

namespace echelon::app {

/// The GPUs one rank sees.
struct VisibleDevices {
  std::string host;              ///< the rank's node
  std::vector<std::string> ids;  ///< unlike on unlike GPUs, also between processes; in the rank's own order
  std::string why_none;          ///< where `ids` is empty
};

/// Who computes on what, the same on every rank.
struct DeviceChoice {
  std::vector<int> devices;  ///< of each rank: index into its `ids`, or -1
  bool shared = false;       ///< some GPU serves several ranks
  std::string lacking;       ///< why a rank has none of its own: "node n1 shows 1 GPU(s) for its 2 ranks"
};

/// Gives every rank a GPU: of those it sees, the first that no rank before it on its node has taken. So ranks
/// that see all GPUs of a node take one each, in order, and ranks to which Slurm shows one each take that.
/// With `share`, a rank for which none is left takes one of its own by turns; without, it gets none.
[[nodiscard]] DeviceChoice assign_devices(const std::vector<VisibleDevices>& ranks, bool share);

}  // namespace echelon::app
