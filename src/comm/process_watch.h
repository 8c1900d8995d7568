#pragma once
#include <memory>

#include "comm/activity.h"
#include "comm/awaited.h"
#include "comm/communicator.h"
#include "comm/peer_failure.h"

namespace echelon {

/// What the communicators of a process tell (activity, awaited) and are told (failure): LifeWatch
/// (liveness) stands at the other end of both. Never null.
struct ProcessWatch {
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::shared_ptr<Awaited> awaited = std::make_shared<Awaited>();
  std::shared_ptr<PeerFailure> failure = std::make_shared<PeerFailure>();
};

/// As make_mpi_communicator(job, timeout_s). Waits end with Error(kPeer) within a tenth of a second once
/// watch.failure is set. The first call of a process decides which `watch` all its groups have.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator(Job& job, double timeout_s,
                                                                  const ProcessWatch& watch);

}  // namespace echelon
