// NCCL's collectives, on a Machine. A non-blocking communicator launches them on a thread of its own.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/str.h"
#include "gpu/stand_in/communicator.h"

using namespace echelon::stand_in;  // NOLINT
using echelon::str;

namespace {

struct Call {
  ncclComm* comm = nullptr;
  Transfer transfer;
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;  ///< of a call within it: nothing of the group is launched then
  std::vector<Call> calls;
};
thread_local Group t_group;

/// All ranks have come: they differ, or the results are made.
void hold(Meeting& meeting, ncclComm& comm) {
  if (const std::string text = difference(meeting.parts); !text.empty()) {
    comm.machine->fault(str("the ranks of '", comm.clique->name, "' differ: ", text));
    meeting.stuck = comm.machine->chance() < 0.5;
    meeting.results.resize(meeting.parts.size());
  } else {
    const int size = static_cast<int>(meeting.parts.size());
    meeting.results = carry_out(meeting.parts, static_cast<int>(comm.next) % size);
  }
  meeting.held = true;
}

bool may_end(Meeting& meeting, ncclComm& comm) {
  if (comm.aborted) return true;
  const auto rank = static_cast<std::size_t>(comm.rank);
  if (!meeting.arrived[rank]) {
    meeting.arrived[rank] = true;
    if (std::all_of(meeting.arrived.begin(), meeting.arrived.end(), [](bool there) { return there; }))
      hold(meeting, comm);
    comm.machine->changed();
  }
  return meeting.held && !meeting.stuck;
}

void end(Meeting& meeting, ncclComm& comm, const std::vector<Range>& writes) {
  --comm.under_way;
  const std::vector<std::byte>& result = meeting.results[static_cast<std::size_t>(comm.rank)];
  if (comm.aborted || result.empty()) return;
  std::size_t at = 0;
  for (const Range& range : writes) {
    std::memcpy(const_cast<void*>(range.memory), result.data() + at, range.bytes);
    at += range.bytes;
  }
}

/// The kernel of one collective goes to its stream, for a thread that had seen `issued`.
void launch(ncclComm& comm, const Transfer& transfer, const Clock& issued) {
  const std::size_t size = comm.clique->members.size();
  const auto reads = reads_of(transfer, static_cast<int>(size));
  const auto writes = writes_of(transfer, static_cast<int>(size));
  if (!comm.machine->inside(reads, describe(transfer)) || !comm.machine->inside(writes, describe(transfer))) {
    comm.state = ncclUnhandledCudaError;
    return;
  }
  std::shared_ptr<Meeting>& meeting = comm.clique->meetings[comm.next++];
  if (!meeting) {
    meeting = std::make_shared<Meeting>();
    meeting->arrived.resize(size);
    meeting->parts.resize(size);
    meeting->results.resize(size);
  }
  meeting->parts[static_cast<std::size_t>(comm.rank)] = transfer;
  ++comm.under_way;
  comm.machine->push_issued(comm.machine->stream(transfer.stream),
                            {.name = named(str(describe(transfer), " of '", comm.clique->name, "'")),
                             .reads = reads,
                             .writes = writes,
                             .run = [meeting, &comm, writes] { end(*meeting, comm, writes); },
                             .ready = [meeting, &comm] { return may_end(*meeting, comm); },
                             .owner = &comm,
                             .issued = issued});
}

/// Sends and receives of a group are one operation.
std::vector<Transfer> merged(const std::vector<Call>& calls, const ncclComm* comm) {
  std::vector<Transfer> transfers;
  for (const Call& call : calls) {
    if (call.comm != comm) continue;
    const bool joins = call.transfer.kind == TransferKind::kExchange && !transfers.empty() &&
                       transfers.back().kind == TransferKind::kExchange;
    if (!joins) {
      transfers.push_back(call.transfer);
      continue;
    }
    Transfer& into = transfers.back();
    into.sends.insert(into.sends.end(), call.transfer.sends.begin(), call.transfer.sends.end());
    into.receives.insert(into.receives.end(), call.transfer.receives.begin(), call.transfer.receives.end());
  }
  return transfers;
}

/// NCCL connects the ranks in the first collective of a communicator: its threads on the host meet those of
/// all others, and take memory of the device, for which CUDA may wait until the device has nothing left to
/// do.
bool connected(ncclComm& comm) {
  std::set<int>& there = comm.clique->connecting;
  there.insert(comm.rank);
  return there.size() == comm.clique->members.size() && comm.machine->idle(comm.host);
}

void launch_group(std::vector<Call> calls) {
  std::set<ncclComm*> comms;
  for (const Call& call : calls) comms.insert(call.comm);
  for (ncclComm* comm : comms) {
    const Clock issued = comm->machine->issue();
    add_job(
        *comm, [comm] { return comm->aborted || comm->next > 0 || connected(*comm); },
        [comm, transfers = merged(calls, comm), issued] {
          if (comm->aborted) return;
          for (const Transfer& transfer : transfers) launch(*comm, transfer, issued);
        });
  }
}

ncclResult_t enqueue(ncclComm_t comm, const Transfer& transfer) {
  if (comm == nullptr) return ncclInvalidArgument;
  Inside inside(comm, name_of(transfer.kind));
  const ncclResult_t state = inside.began() ? ready(*comm) : ncclSystemError;
  if (state != ncclSuccess) {
    if (t_group.depth > 0) t_group.error = state;
    return state;
  }
  t_group.calls.push_back({comm, transfer});
  if (t_group.depth > 0) return ncclSuccess;
  launch_group(std::exchange(t_group.calls, {}));
  return comm->state;
}

/// What the ranks of a collective have in common.
Transfer collective(TransferKind kind, const void* send, void* receive, size_t count, ncclDataType_t type,
                    cudaStream_t stream) {
  return {.kind = kind, .send = send, .receive = receive, .count = count, .type = type, .stream = stream};
}

}  // namespace

extern "C" {

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm, collective(TransferKind::kAllGather, send, receive, count, type, stream));
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  Transfer transfer = collective(TransferKind::kReduceScatter, send, receive, count, type, stream);
  transfer.op = op;
  return enqueue(comm, transfer);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  Transfer transfer = collective(TransferKind::kAllReduce, send, receive, count, type, stream);
  transfer.op = op;
  return enqueue(comm, transfer);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Transfer transfer = collective(TransferKind::kExchange, nullptr, nullptr, count, type, stream);
  transfer.sends.push_back({peer, const_cast<void*>(send), count * size_of(type)});
  if (comm != nullptr) {
    const auto held = comm->machine->lock();
    comm->machine->count_sent(count * size_of(type));
  }
  return enqueue(comm, transfer);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Transfer transfer = collective(TransferKind::kExchange, nullptr, nullptr, count, type, stream);
  transfer.receives.push_back({peer, receive, count * size_of(type)});
  return enqueue(comm, transfer);
}

ncclResult_t ncclGroupStart() {
  ++t_group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (t_group.depth == 0) return ncclInvalidUsage;
  if (--t_group.depth > 0) return ncclSuccess;
  std::vector<Call> calls = std::exchange(t_group.calls, {});
  if (const ncclResult_t error = std::exchange(t_group.error, ncclSuccess); error != ncclSuccess)
    return error;
  if (calls.empty()) return ncclSuccess;
  const auto held = calls.front().comm->machine->lock();
  launch_group(std::move(calls));
  return ncclInProgress;
}

}  // extern "C"
