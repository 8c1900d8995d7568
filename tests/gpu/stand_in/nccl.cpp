// NCCL's communicators, on a Machine, with the manners of 2.28: a non-blocking one does everything on a
// thread of its own and is "in progress" meanwhile, a child is NULL until its parent is through, and no two
// threads may be inside the calls of one communicator. Its end waits for the ranks of the node.
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/str.h"
#include "gpu/stand_in/communicator.h"

using namespace echelon::stand_in;  // NOLINT
using echelon::str;

namespace {

/// The ranks of a communicator that split it.
struct Parting {
  struct Wish {
    int color = 0;
    int key = 0;
    int rank = 0;
    ncclComm* child = nullptr;
  };
  std::vector<Wish> wishes;
};

/// Decides the groups once all have come; each rank's job then takes its own.
void part(Machine& machine, Parting& parting, const std::string& name) {
  std::sort(parting.wishes.begin(), parting.wishes.end(), [](const auto& a, const auto& b) {
    return std::tie(a.color, a.key, a.rank) < std::tie(b.color, b.key, b.rank);
  });
  for (const Parting::Wish& wish : parting.wishes) {
    const auto same = [&](const Parting::Wish& other) { return other.color == wish.color; };
    const auto size = std::count_if(parting.wishes.begin(), parting.wishes.end(), same);
    const auto clique = clique_of(machine, str(name, ".", wish.color), static_cast<int>(size));
    if (wish.child->clique == clique) continue;
    const auto place = std::find(clique->members.begin(), clique->members.end(), nullptr);
    if (place == clique->members.end()) continue;
    wish.child->rank = static_cast<int>(place - clique->members.begin());
    wish.child->clique = clique;
    *place = wish.child;
  }
}

/// From the first collective on, NCCL's own thread serves the ranks of the node, and ends with the last of
/// them: for ncclCommDestroy and ncclCommAbort alike, on a non-blocking communicator too.
void leave_with_node(ncclComm& comm, std::unique_lock<std::mutex>& held) {
  comm.leaves = true;
  comm.machine->changed();
  const std::vector<ncclComm*>& members = comm.clique->members;
  if (comm.clique->connecting.size() < members.size()) return;
  (void)comm.machine->wait(held, [&] {
    return std::all_of(members.begin(), members.end(), [&comm](const ncclComm* other) {
      return other->leaves || !comm.machine->on_one_node(other->host, comm.host);
    });
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  Machine& machine = *Machine::current();
  if (!machine.begin_call()) return ncclSystemError;
  const auto held = machine.lock();
  *id = {};
  const int number = ++machine.kept<int>("nccl: ids");
  std::memcpy(id->internal, &number, sizeof(number));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess           ? "no error"
         : result == ncclInvalidArgument ? "invalid argument"
                                         : "the stand-in's NCCL error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Machine& machine = *Machine::current();
  if (!machine.begin_call()) return ncclSystemError;
  const auto held = machine.lock();
  if (config == nullptr || config->blocking != 0) machine.fault("a communicator that blocks");
  machine.needs_device_of(machine.host().rank, "ncclCommInitRankConfig");
  int number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  ncclComm& comm = new_comm(machine);
  comm.clique = clique_of(machine, str("id ", number), nranks);
  comm.rank = rank;
  comm.clique->members[static_cast<std::size_t>(rank)] = &comm;
  *out = &comm;  // at once: the caller asks it how far it is
  add_job(
      comm, [&comm] { return comm.aborted || comm.clique->complete(); }, [] {});
  return comm.state;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  if (comm == nullptr) return ncclInvalidArgument;
  Inside inside(comm, "ncclCommSplit");
  if (!inside.began()) return ncclSystemError;
  Machine& machine = *comm->machine;
  if (config == nullptr || config->blocking != 0) machine.fault("a communicator that blocks");
  if (const ncclResult_t state = ready(*comm); state != ncclSuccess) return state;
  *out = nullptr;  // until the parent is through
  ncclComm& child = new_comm(machine);
  child.clique = std::make_shared<Clique>();
  const std::string name = str(comm->clique->name, "/", ++comm->splits);
  auto& parting = machine.kept<Parting>("nccl: parting " + name);
  parting.wishes.push_back({.color = color, .key = key, .rank = comm->rank, .child = &child});
  add_job(
      *comm,
      [comm, &parting] { return comm->aborted || parting.wishes.size() == comm->clique->members.size(); },
      [comm, &parting, &child, name, out] {
        child.aborted = comm->aborted;
        child.state = comm->aborted ? ncclInternalError : ncclSuccess;
        if (!comm->aborted) part(*comm->machine, parting, name);
        *out = &child;  // also where it failed
      });
  return ncclSuccess;  // not "in progress"
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (comm == nullptr) return ncclInvalidArgument;
  Inside inside(comm, "ncclCommGetAsyncError");
  if (!inside.began()) return ncclSystemError;
  *result = comm->machine->left_out(Order::kSettle) ? ncclSuccess : comm->state;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  Inside inside(comm, "ncclCommFinalize");
  if (!inside.began()) return ncclSystemError;
  if (const ncclResult_t state = ready(*comm); state != ncclSuccess) return state;
  if (comm->finalized) return ncclInvalidArgument;
  comm->finalized = true;
  add_job(
      *comm, [comm] { return comm->aborted || comm->under_way == 0; }, [] {});
  return comm->state;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  Inside inside(comm, "ncclCommDestroy");
  if (comm->destroyed) return ncclInvalidArgument;
  if (comm->jobs > 0 || comm->under_way > 0)
    comm->machine->fault(str("'", comm->clique->name, "' is destroyed while something of it is under way"));
  leave_with_node(*comm, inside.held());
  comm->destroyed = true;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  Inside inside(comm, "ncclCommAbort");
  if (comm->destroyed) return ncclInvalidArgument;
  comm->aborted = true;
  comm->machine->changed();
  (void)comm->machine->wait(inside.held(), [comm] { return comm->jobs == 0; });
  leave_with_node(*comm, inside.held());
  comm->state = ncclInternalError;
  comm->destroyed = true;
  return ncclSuccess;
}

}  // extern "C"
