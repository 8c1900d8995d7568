#include "comm/local_communicator.h"

#include "comm/reduce.h"

namespace echelon {

void LocalCommunicator::record(Operation operation) {
  operation.sequence = sequence_++;
  history_.issued(operation);
  history_.done(operation.sequence);
}

Pending LocalCommunicator::all_gather(void*, std::size_t count, DType type, std::string_view label) {
  record(make_operation(OperationKind::kAllGather, count, type, label));
  return {};
}

Pending LocalCommunicator::reduce_scatter(void* input, DType in_type, float* output, std::size_t count,
                                          float scale, bool accumulate, std::string_view label) {
  const void* sources[] = {input};
  sum_scaled(sources, in_type, output, count, scale, accumulate);
  record(make_operation(OperationKind::kReduceScatter, count, in_type, label));
  return {};
}

Pending LocalCommunicator::all_reduce(void*, std::size_t count, DType type, ReduceOp,
                                      std::string_view label) {
  record(make_operation(OperationKind::kAllReduce, count, type, label));
  return {};
}

std::vector<Blob> LocalCommunicator::gather_blobs(const Blob& mine, std::string_view label) {
  record(make_operation(OperationKind::kGatherBlobs, 0, DType::kU8, label));
  return {mine};
}

void LocalCommunicator::barrier(std::string_view label) {
  record(make_operation(OperationKind::kBarrier, 0, DType::kU8, label));
}

std::unique_ptr<Communicator> LocalCommunicator::split(const ColorOf&) {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace echelon
