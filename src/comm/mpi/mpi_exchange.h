#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/mpi/mpi_library.h"
#include "comm/operation.h"
#include "comm/peer_watch.h"
#include "comm/process_watch.h"

namespace echelon {

/// Payloads up to this size are sent inside the announcement, so a small operation takes one message.
constexpr std::size_t kInlineBytes = 2048;

/// An operation may have a second round of data, which can overtake the first between some pairs.
enum class MpiPhase { kFirst = 1, kSecond = 2 };

/// The announcement of an operation.
struct MpiEnvelope {
  Operation operation;
  std::uint64_t inline_bytes = 0;
  std::byte bytes[kInlineBytes];
};

/// One group of ranks as the communication thread sees it. Ranks are numbered within the group unless a name
/// says `world`.
struct MpiGroup {
  std::string name;              ///< "world", "world/0", ...
  int rank = 0;                  ///< this rank
  std::vector<int> world_ranks;  ///< of every member
  std::vector<std::string> hosts;
  int tag = 0;  ///< messages of this group carry tag (announcements), tag + 1 and tag + 2 (data, by phase)
  double timeout_s = 0;
  const PeerWatch* watch = nullptr;            ///< may be null
  ProcessWatch links;                          ///< once `failure` is set, every wait ends with it
  std::atomic<std::uint64_t>* sent = nullptr;  ///< Communicator::sent_bytes(), of all groups
  std::vector<MpiEnvelope> outgoing;           ///< one per member, reused by every operation
  std::vector<MpiEnvelope> incoming;

  [[nodiscard]] int size() const { return static_cast<int>(world_ranks.size()); }
  /// "rank 3 (n1)", by world number.
  [[nodiscard]] std::string name_of(int member) const;
};

/// The messages of one operation of one group. Every rank announces the operation to every other. Between
/// two ranks data are sent only after both announcements, so different operations never write to each other's
/// buffers. Only non-blocking point-to-point calls are used: each wait can end at the deadline and name who
/// is missing.
class MpiExchange {
 public:
  struct Arrival {
    int peer;
    const Operation& theirs;
    std::span<const std::byte> bytes;  ///< the payload inside the announcement; valid during the call
  };
  using OnArrival = std::function<void(const Arrival&)>;

  MpiExchange(MpiGroup& group, const Operation& mine);

  /// Sends the operation with `along(peer)` (at most kInlineBytes) to every peer and calls `on_arrival` once
  /// per peer inside run().
  void announce(const std::function<std::span<const std::byte>(int)>& along, OnArrival on_arrival);

  /// Starts a message of the operation's data; `done` is called inside run(). The bytes stay in place until
  /// then. Messages of one pair and phase match in the order they were started.
  void send(int peer, const void* bytes, std::size_t size, MpiPhase phase,
            const std::function<void()>& done = {});
  void receive(int peer, void* bytes, std::size_t size, MpiPhase phase,
               const std::function<void()>& done = {});

  /// Runs until every message has been sent or received. Throws Error(kPeer): deadline, ended peer, different
  /// operation, MPI error.
  void run();

 private:
  struct Message {
    int peer = 0;
    std::function<void()> done;
  };
  using Clock = std::chrono::steady_clock;

  void add(MPI_Request request, int peer, std::function<void()> done);
  void count(std::size_t bytes) const;  ///< data sent
  void on_envelope(int peer);
  [[nodiscard]] bool progress();
  [[nodiscard]] std::vector<int> waiting_for() const;
  void check_ended_peers(Clock::time_point now);
  [[noreturn]] void report_deadline() const;
  [[nodiscard]] std::string this_operation() const;
  void check(int mpi_result, const char* call) const;

  MpiGroup& group_;
  const Operation mine_;
  const Clock::time_point start_ = Clock::now();
  OnArrival on_arrival_;
  std::vector<bool> arrived_;
  int last_peer_ = -1;  ///< of the last completed message
  std::vector<MPI_Request> requests_;
  std::vector<Message> messages_;  ///< of the request of the same index
  std::vector<int> free_;          ///< indices of finished requests
  std::vector<int> finished_;      ///< scratch of progress()
  std::vector<MPI_Status> statuses_;
  std::size_t open_ = 0;
  Clock::time_point next_watch_;
  int ended_ = -1;  ///< a peer that has ended and is still waited for; -1: none
  Clock::time_point ended_since_;
};

}  // namespace echelon
