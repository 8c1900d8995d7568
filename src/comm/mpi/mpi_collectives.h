#pragma once
#include "comm/mpi/mpi_exchange.h"

namespace echelon {

/// Scratch memory of the collectives: returns at least this many bytes, the same memory at every call.
using Staging = std::function<std::byte*(std::size_t)>;

/// The collectives of communicator.h on one group, run to completion on the communication thread. `operation`
/// is what this rank announces; sizes and types are read from it. They throw Error(kPeer) (MpiExchange::run).

void mpi_all_gather(MpiGroup& group, const Operation& operation, void* buffer);
void mpi_reduce_scatter(MpiGroup& group, const Operation& operation, const void* input, float* output,
                        float scale, bool accumulate, const Staging& staging);
void mpi_all_reduce(MpiGroup& group, const Operation& operation, void* data, const Staging& staging);
void mpi_broadcast(MpiGroup& group, const Operation& operation, void* data);
void mpi_gather_blobs(MpiGroup& group, const Operation& operation, const Blob& mine, std::vector<Blob>& all);
void mpi_barrier(MpiGroup& group, const Operation& operation);

}  // namespace echelon
