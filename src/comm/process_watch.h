#pragma once
#include <memory>

#include "comm/activity.h"
#include "comm/awaited.h"
#include "comm/peer_failure.h"

namespace echelon {

/// The link between the communicators of a process and LifeWatch (liveness). The communicators write
/// `activity` and `awaited`; LifeWatch writes `failure`. No pointer is null.
struct ProcessWatch {
  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::shared_ptr<Awaited> awaited = std::make_shared<Awaited>();
  std::shared_ptr<PeerFailure> failure = std::make_shared<PeerFailure>();
};

}  // namespace echelon
