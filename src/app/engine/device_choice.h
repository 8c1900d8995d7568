#pragma once
#include <string>
#include <tuple>
#include <vector>

namespace echelon::app {

/// The GPUs that one rank sees.
struct VisibleDevices {
  std::string host;              ///< the rank's node
  std::vector<std::string> ids;  ///< one per GPU, unique within the node; in the rank's own order
  std::string why_none;          ///< reason if `ids` is empty
  bool broken = false;           ///< `ids` is empty although the node has GPUs: a fault, not a choice
  auto fields() { return std::tie(host, ids, why_none, broken); }
};

/// The device of every rank; the same value on all ranks.
struct DeviceChoice {
  std::vector<int> devices;  ///< by rank: index into its `ids`, or -1
  bool shared = false;       ///< several ranks use the same GPU
  std::string lacking;       ///< why a rank has no GPU: "node n1 shows 1 GPU(s) for its 2 ranks"
  bool broken = false;       ///< a node's GPUs cannot be used; `lacking` says why
  std::string hiding;        ///< node of which a rank does not see all GPUs that its ranks see; empty: none
};

/// Assigns each rank the first GPU it sees that no lower rank of its node has taken. If all ranks see all
/// GPUs of the node, they take one each in order; if Slurm shows each rank one GPU, each takes that one. If
/// none is left, the rank gets -1; with `share` it shares the GPUs it sees, round-robin. Pure.
[[nodiscard]] DeviceChoice assign_devices(const std::vector<VisibleDevices>& ranks, bool share);

}  // namespace echelon::app
