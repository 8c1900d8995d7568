#include "train/read_fault.h"

#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/files/disk.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/str.h"
#include "comm/agree.h"
#include "comm/exchange.h"

namespace echelon {

Fault fault_of(Communicator& comm, Reads reads, const std::function<void()>& body) {
  Fault mine;
  const auto noting = [&] {
    try {
      body();
    } catch (const Error& e) {
      const bool no_room = reads == Reads::kFromNodes && e.code() == Code::kEnvironment;
      if (e.code() != Code::kCheckpoint && !no_room) throw;
      mine = {Fault::Kind::kDamaged, e.what()};
      if (no_room || e.is_of_system())
        mine = {no_room ? Fault::Kind::kNoRoom : Fault::Kind::kUnreadable,
                str("rank ", comm.rank(), " on ", host_name(), ": ", e.what())};
    }
  };
  std::function<std::uint64_t()> progress = fs::bytes_read;
  if (reads == Reads::kFromNodes) progress = {};  // waits for other nodes have deadlines of their own
  agree_at_length(comm, "read checkpoint", noting, progress);
  Fault worst;
  int faulty = 0;
  for (const Fault& one : gather_values(comm, mine, "state of a checkpoint")) {
    if (one.kind > worst.kind) worst = one;
    if (!one.none()) ++faulty;
  }
  if (reads == Reads::kSame && faulty > 0 && faulty < comm.size())
    worst = {Fault::Kind::kUnreadable, str("on ", faulty, " of ", comm.size(), " ranks: ", worst.text)};
  return worst;
}

Fault patiently(const Communicator& comm, const std::string& what, const std::function<Fault()>& attempt,
                const std::string& if_lost) {
  Fault fault = attempt();
  for (const double pause_s : {0.5, 2.0}) {
    if (fault.kind != Fault::Kind::kUnreadable) return fault;
    if (comm.rank() == 0) log::warn(str(what, " cannot be read and is tried again: ", fault.text));
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
    fault = attempt();
  }
  if (fault.kind != Fault::Kind::kUnreadable) return fault;
  if (comm.rank() != 0) throw Error::already_reported(Code::kPeer);
  throw Error(Code::kPeer, "resume: ", what, " cannot be read (", fault.text,
              "); this says nothing about its content, so nothing older is taken in its place, and nothing "
              "is removed; start again, on other nodes if it is the node's fault; if it is lost, ",
              if_lost);
}

}  // namespace echelon
