#pragma once
#include <functional>
#include <string_view>

#include "comm/communicator.h"

namespace echelon {

/// Runs `body` on every rank of `comm`; returns when it succeeded everywhere. When it threw on some ranks,
/// all ranks throw: the lowest failing rank what its `body` threw, whatever that is, the others
/// Error::already_reported() with the same code (kTraining for what is no Error). So one rank's bad disk, or
/// want of memory, ends the job with one message instead of leaving the others waiting. Collective.
void agree(Communicator& comm, std::string_view label, const std::function<void()>& body);

/// `sum`: of every rank's digest() of the communicator `comm`. Throws Error(kPeer) on ranks that see that
/// they have issued other operations than the others; where the ranks differ, at least one of them sees it.
void check_digests(const Communicator& comm, double sum);

}  // namespace echelon
