#include "comm/mpi/mpi_exchange.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;

// MPI counts are int, so larger messages are cut into pieces, in the same way by sender and receiver.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;
constexpr auto kWatchInterval = 50ms;
constexpr auto kStoodStill = 1s;
// A peer may end right after its last send. Its messages are then still on the way, and get this long to
// arrive before it counts as missing.
constexpr auto kLastWords = 200ms;

/// How a waiting rank leaves its core to computing ones. It polls for 60 us, about as long as a punctual peer
/// needs, then sleeps for 10 us and doubles that up to 160 us, which costs little latency.
class Patience {
 public:
  void reset() { polls_ = 0; }
  void pause() {
    using Clock = std::chrono::steady_clock;
    if (polls_++ == 0) {
      spin_end_ = Clock::now() + 60us;
      nap_ = 10us;
      return;
    }
    if (nap_ == 10us && (polls_ % 8 != 0 || Clock::now() < spin_end_)) {
      if (polls_ % 4 == 0) sched_yield();
      return;
    }
    std::this_thread::sleep_for(nap_);
    nap_ = std::min<std::chrono::microseconds>(nap_ * 2, 160us);
  }

 private:
  unsigned polls_ = 0;
  std::chrono::steady_clock::time_point spin_end_;
  std::chrono::microseconds nap_{};
};

}  // namespace

std::string MpiGroup::name_of(int member) const {
  const auto index = static_cast<std::size_t>(member);
  return str("rank ", world_ranks[index], " (", hosts[index], ")");
}

MpiExchange::MpiExchange(MpiGroup& group, const Operation& mine)
    : group_(group),
      mine_(mine),
      arrived_(group.world_ranks.size(), false),
      next_watch_(start_ + kWatchInterval) {
  arrived_[static_cast<std::size_t>(group.rank)] = true;
}

void MpiExchange::check(int mpi_result, const char* call) const {
  if (mpi_result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  mpi().error_string(mpi_result, text, &length);
  throw Error(Code::kPeer, call, " failed in ", this_operation(), " on ", group_.name_of(group_.rank), ": ",
              text);
}

void MpiExchange::add(MPI_Request request, int peer, std::function<void()> done) {
  ++open_;
  if (!free_.empty()) {
    const auto index = static_cast<std::size_t>(free_.back());
    free_.pop_back();
    requests_[index] = request;
    messages_[index] = {peer, std::move(done)};
    return;
  }
  requests_.push_back(request);
  messages_.push_back({peer, std::move(done)});
}

void MpiExchange::count(std::size_t bytes) const {
  if (mine_.kind != OperationKind::kGatherBlobs) group_.sent->fetch_add(bytes, std::memory_order_relaxed);
}

void MpiExchange::announce(const std::function<std::span<const std::byte>(int)>& along,
                           OnArrival on_arrival) {
  on_arrival_ = std::move(on_arrival);
  const int size = group_.size();
  // Each rank starts with the one after it, so that not all send to rank 0 first.
  for (int step = 1; step < size; ++step) {
    const int peer = (group_.rank + step) % size;
    const auto index = static_cast<std::size_t>(peer);
    const int world = group_.world_ranks[index];
    MPI_Request request;
    // The receive is posted before the send: an announcement then finds its buffer, and MPI need not keep a
    // copy of it.
    check(mpi().irecv(&group_.incoming[index], sizeof(MpiEnvelope), mpi().byte, world, group_.tag,
                      mpi().world, &request),
          "MPI_Irecv");
    add(request, peer, [this, peer] { on_envelope(peer); });
    MpiEnvelope& envelope = group_.outgoing[index];
    const auto bytes = along(peer);
    envelope.operation = mine_;
    envelope.inline_bytes = bytes.size();
    std::ranges::copy(bytes, envelope.bytes);
    count(bytes.size());
    const int length = static_cast<int>(offsetof(MpiEnvelope, bytes) + bytes.size());
    check(mpi().isend(&envelope, length, mpi().byte, world, group_.tag, mpi().world, &request), "MPI_Isend");
    add(request, peer, {});
  }
}

void MpiExchange::on_envelope(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  const MpiEnvelope& envelope = group_.incoming[index];
  const Operation& theirs = envelope.operation;
  // The order check. Nothing of this operation has been written to the caller's buffers of this rank for
  // that peer, so a mismatch ends in an error and not in wrong data.
  if (!matches(mine_, theirs)) {
    throw Error(Code::kPeer, group_.name_of(peer), " issued ", describe(theirs), " as operation #",
                theirs.sequence, " of group '", group_.name, "', ", group_.name_of(group_.rank), " issued ",
                describe(mine_), " as #", mine_.sequence,
                ": all ranks must run the same program, recipe and data plan");
  }
  arrived_[index] = true;
  on_arrival_({peer, theirs, {envelope.bytes, envelope.inline_bytes}});
}

void MpiExchange::send(int peer, const void* bytes, std::size_t size, MpiPhase phase,
                       const std::function<void()>& done) {
  const int world = group_.world_ranks[static_cast<std::size_t>(peer)];
  count(size);
  for (std::size_t begin = 0; begin < size; begin += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, size - begin);
    MPI_Request request;
    check(mpi().isend(static_cast<const std::byte*>(bytes) + begin, static_cast<int>(piece), mpi().byte,
                      world, group_.tag + static_cast<int>(phase), mpi().world, &request),
          "MPI_Isend");
    add(request, peer, begin + piece == size ? done : std::function<void()>());
  }
}

void MpiExchange::receive(int peer, void* bytes, std::size_t size, MpiPhase phase,
                          const std::function<void()>& done) {
  const int world = group_.world_ranks[static_cast<std::size_t>(peer)];
  // Pieces of one pair arrive in order, but complete in any order: the last one to complete calls `done`.
  auto left = std::make_shared<std::size_t>((size + kPieceBytes - 1) / kPieceBytes);
  for (std::size_t begin = 0; begin < size; begin += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, size - begin);
    MPI_Request request;
    check(mpi().irecv(static_cast<std::byte*>(bytes) + begin, static_cast<int>(piece), mpi().byte, world,
                      group_.tag + static_cast<int>(phase), mpi().world, &request),
          "MPI_Irecv");
    add(request, peer, [left, done] {
      if (--*left == 0 && done) done();
    });
  }
}

bool MpiExchange::progress() {
  finished_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int result = mpi().testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                    finished_.data(), statuses_.data());
  if (result == MPI_ERR_IN_STATUS) {
    for (int n = 0; n < count; ++n) check(statuses_[static_cast<std::size_t>(n)].MPI_ERROR, "a message");
  }
  check(result, "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  // A copy, because a callback may start messages, which reuse and grow these arrays.
  const std::vector<int> batch(finished_.begin(), finished_.begin() + count);
  for (const int index : batch) {
    --open_;
    free_.push_back(index);
    last_peer_ = messages_[static_cast<std::size_t>(index)].peer;
    const auto done = std::move(messages_[static_cast<std::size_t>(index)].done);
    if (done) done();  // may start further messages
  }
  return true;
}

void MpiExchange::run() {
  Patience patience;
  auto deadline =
      start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(group_.timeout_s));
  auto last = Clock::now();
  while (open_ > 0) {
    if (progress()) {
      patience.reset();
      last = Clock::now();
      continue;
    }
    patience.pause();
    const auto now = Clock::now();
    // This process itself did not run for a while (scontrol suspend, a virtual machine that moves). That time
    // is not the fault of others, so the deadline moves by it.
    if (now - last > kStoodStill) deadline += now - last;
    last = now;
    if (now >= next_watch_) check_ended_peers(now);
    if (now >= deadline) report_deadline();
  }
  // Statistics for finding slow ranks: who came last, and how long this operation took.
  if (last_peer_ < 0) return;
  group_.links.awaited->add(group_.world_ranks[static_cast<std::size_t>(last_peer_)], seconds_since(start_));
}

std::vector<int> MpiExchange::waiting_for() const {
  std::vector<int> peers;
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (!arrived_[static_cast<std::size_t>(peer)]) peers.push_back(peer);
  }
  // Without an announcement nothing else can come from a peer: those are named first.
  if (!peers.empty()) return peers;
  for (std::size_t index = 0; index < requests_.size(); ++index) {
    if (requests_[index] != mpi().null_request) peers.push_back(messages_[index].peer);
  }
  std::ranges::sort(peers);
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

std::string MpiExchange::this_operation() const {
  return str(describe(mine_), " (operation #", mine_.sequence, " of group '", group_.name, "', ",
             mine_.count * size_of(mine_.type), " bytes)");
}

void MpiExchange::check_ended_peers(Clock::time_point now) {
  next_watch_ = now + kWatchInterval;
  group_.links.failure->check();
  if (group_.watch == nullptr) return;
  const std::vector<int> missing = waiting_for();
  if (!std::ranges::binary_search(missing, ended_)) {  // nobody yet, or its last words have come
    const auto found = std::ranges::find_if(missing, [this](int peer) {
      return group_.watch->ended(group_.world_ranks[static_cast<std::size_t>(peer)]);
    });
    ended_ = found == missing.end() ? -1 : *found;
    ended_since_ = now;
  }
  if (ended_ < 0 || now - ended_since_ < kLastWords) return;
  throw Error(Code::kPeer, group_.name_of(ended_), " has ended without taking part in ", this_operation(),
              ", noticed by ", group_.name_of(group_.rank), ": see that rank's own message and log");
}

void MpiExchange::report_deadline() const {
  const bool any_missing = std::ranges::find(arrived_, false) != arrived_.end();
  throw Error(Code::kPeer, this_operation(), " on ", group_.name_of(group_.rank), " waited ",
              group_.timeout_s,
              any_missing ? " s, still not arrived: " : " s, arrived but the data stopped between here and: ",
              join(mapped(waiting_for(), [this](int peer) { return group_.name_of(peer); }), ", "));
}

}  // namespace echelon
