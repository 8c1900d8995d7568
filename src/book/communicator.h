#pragma once
#include <memory>

#include "comm/communicator.h"

namespace echelon::book {

/// One rank of a job of any size, which issues its collectives to nobody: they are recorded and complete at
/// once. Values that other ranks would add are those of this rank. `on_host`: forecast::Group. Ranks are
/// numbered by node, `ranks_per_node` on each.
[[nodiscard]] std::unique_ptr<Communicator> make_recording_communicator(int rank, int size, bool on_host,
                                                                        int ranks_per_node);

}  // namespace echelon::book
