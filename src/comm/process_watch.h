#pragma once
#include <memory>

#include "comm/activity.h"
#include "comm/awaited.h"
#include "comm/peer_failure.h"

namespace echelon {

/// What the communicators of a process tell (activity, awaited) and are told (failure): LifeWatch
/// (liveness) stands at the other end of both. Never null.
struct ProcessWatch {
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::shared_ptr<Awaited> awaited = std::make_shared<Awaited>();
  std::shared_ptr<PeerFailure> failure = std::make_shared<PeerFailure>();
};

}  // namespace echelon
