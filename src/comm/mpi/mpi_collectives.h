#pragma once
#include "comm/mpi/mpi_exchange.h"
#include "comm/mpi/mpi_worker.h"

namespace echelon {

/// The collectives of communicator.h on one group, run to completion on the communication thread. `operation`
/// is what this rank announces; sizes and types are read from it. They throw Error(kPeer) (MpiExchange::run).

void mpi_all_gather(MpiGroup& group, const Operation& operation, void* buffer);
void mpi_reduce_scatter(MpiGroup& group, const Operation& operation, const void* input, float* output,
                        float scale, bool accumulate, MpiWorker& worker);
void mpi_all_reduce(MpiGroup& group, const Operation& operation, void* data, MpiWorker& worker);
void mpi_gather_blobs(MpiGroup& group, const Operation& operation, const Blob& mine, std::vector<Blob>& all);
void mpi_barrier(MpiGroup& group, const Operation& operation);

}  // namespace echelon
