#include "gpu/stand_in/communicator.h"

#include <deque>

#include "base/str.h"

namespace echelon::stand_in {

Inside::Inside(ncclComm* comm, const char* what) : comm_(comm) {
  began_ = comm->machine->begin_call();
  held_ = comm->machine->lock();
  const auto self = std::this_thread::get_id();
  if (comm->inside > 0 && comm->who != self)
    comm->machine->fault(str(what, ": another thread is in a call of '", comm->clique->name, "', too"));
  if (comm->destroyed) comm->machine->fault(str(what, ": the communicator has been destroyed"));
  ++comm->inside;
  comm->who = self;
  if (comm->machine->chance() < 0.1) {
    held_.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(30));
    held_.lock();
  }
}

ncclComm& new_comm(Machine& machine) {
  auto& all = machine.kept<std::deque<ncclComm>>("nccl: communicators");
  if (all.empty()) {
    machine.on_break([&all](int rank) {
      for (ncclComm& comm : all) {
        if (comm.host == rank) comm.leaves = true;
        if (comm.host != rank && !comm.destroyed) comm.state = ncclRemoteError;
      }
    });
  }
  all.emplace_back();
  all.back().host = machine.host().rank;
  all.back().machine = &machine;
  return all.back();
}

std::shared_ptr<Clique> clique_of(Machine& machine, const std::string& name, int size) {
  auto& clique = machine.kept<std::shared_ptr<Clique>>("nccl: clique " + name);
  if (!clique) {
    clique = std::make_shared<Clique>();
    clique->members.resize(static_cast<std::size_t>(size));
    clique->name = name;
  }
  return clique;
}

ncclResult_t ready(const ncclComm& comm) {
  return comm.state == ncclInProgress ? ncclInvalidArgument : comm.state;
}

void add_job(ncclComm& comm, std::function<bool()> may_begin, std::function<void()> run) {
  comm.state = ncclInProgress;
  ++comm.jobs;
  comm.machine->add_job(std::move(may_begin), [&comm, run = std::move(run)] {
    run();
    comm.state = comm.aborted ? ncclInternalError : comm.state == ncclInProgress ? ncclSuccess : comm.state;
    --comm.jobs;
  });
}

}  // namespace echelon::stand_in
