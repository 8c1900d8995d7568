#pragma once
#include <cstdint>
#include <functional>
#include <string_view>

#include "comm/communicator.h"

namespace echelon {

/// Runs `body` on every rank of `comm`; returns when it succeeded everywhere. When it threw on some ranks,
/// all ranks throw. The lowest failing rank rethrows what its `body` threw. The others throw
/// Error::already_reported() with the same code, or kTraining if it was no Error. So one rank's bad disk, or
/// want of memory, ends the job with one message instead of leaving the others waiting. Collective.
void agree(Communicator& comm, std::string_view label, const std::function<void()>& body);

/// As agree(), for a `body` that may take longer than a collective may wait: until all ranks are done, they
/// tell each other that they are not. `progress`, called on another thread, is a count that grows while
/// `body` gets on: if it stands still, the others wait as for any collective. Without it, each wait in `body`
/// needs a deadline of its own. `body` issues no operation on `comm`.
void agree_at_length(Communicator& comm, std::string_view label, const std::function<void()>& body,
                     const std::function<std::uint64_t()>& progress = {});

/// `sum`: the sum of every rank's digest() of `comm`. Throws Error(kPeer) on ranks whose digest differs from
/// the mean. If the ranks' operations differ, at least one rank throws.
void check_digests(const Communicator& comm, double sum);

}  // namespace echelon
