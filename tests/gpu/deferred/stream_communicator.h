#pragma once
#include <memory>

#include "comm/communicator.h"

namespace echelon::test::deferred {

/// Of one rank, as NCCL's: operations run in a stream of its own behind what the caller's current stream has
/// been given, and wait() makes the then current stream wait.
[[nodiscard]] std::unique_ptr<Communicator> make_stream_communicator();

}  // namespace echelon::test::deferred
