#pragma once
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gpu/stand_in/machine.h"
#include "gpu/stand_in/transfers.h"

/// What NCCL's communicators are on a Machine; nccl.cpp and collectives.cpp are its functions. With the
/// machine's lock held, all of it.
namespace echelon::stand_in {

/// One collective of all ranks of a communicator.
struct Meeting {
  std::vector<bool> arrived;
  std::vector<Transfer> parts;
  std::vector<std::vector<std::byte>> results;
  bool stuck = false;
  bool held = false;
};

/// The ranks of one communicator.
struct Clique {
  std::vector<ncclComm*> members;
  std::map<std::uint64_t, std::shared_ptr<Meeting>> meetings;
  std::set<int> connecting;  ///< ranks that have issued their first collective
  std::string name;
  [[nodiscard]] bool complete() const {
    return std::all_of(members.begin(), members.end(), [](const ncclComm* comm) { return comm != nullptr; });
  }
};

}  // namespace echelon::stand_in

struct ncclComm {
  echelon::stand_in::Machine* machine = nullptr;
  std::shared_ptr<echelon::stand_in::Clique> clique;
  int rank = 0;
  int host = 0;  ///< rank of the machine
  ncclResult_t state = ncclInProgress;
  bool aborted = false;
  bool finalized = false;
  bool leaves = false;  ///< is being destroyed or aborted, or its rank has died
  bool destroyed = false;
  int jobs = 0;       ///< under way
  int under_way = 0;  ///< operations that have not ended on this rank
  int splits = 0;
  std::uint64_t next = 0;  ///< number of its next collective
  int inside = 0;
  std::thread::id who;
};

namespace echelon::stand_in {

/// A call of a communicator: the lock, and a look whether another thread is in one, too.
class Inside {
 public:
  Inside(ncclComm* comm, const char* what);
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --comm_->inside; }
  /// False: it is to fail.
  [[nodiscard]] bool began() const { return began_ && !comm_->destroyed; }
  [[nodiscard]] std::unique_lock<std::mutex>& held() { return held_; }

 private:
  ncclComm* comm_;
  bool began_ = false;
  std::unique_lock<std::mutex> held_;
};

[[nodiscard]] ncclComm& new_comm(Machine& machine);
/// The ranks that meet under a name.
[[nodiscard]] std::shared_ptr<Clique> clique_of(Machine& machine, const std::string& name, int size);
/// ncclCommEnsureReady.
[[nodiscard]] ncclResult_t ready(const ncclComm& comm);
/// What NCCL does on a thread of its own; the communicator is in progress until it is done.
void add_job(ncclComm& comm, std::function<bool()> may_begin, std::function<void()> run);

}  // namespace echelon::stand_in
