#include "liveness/hub.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "base/standstill.h"
#include "base/steady_time.h"
#include "base/str.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;
constexpr int kLook_ms = 50;
constexpr double kExamine_s = 2;  // longest wait for another rank's examination of the suspect

}  // namespace

Hub::Hub(Options options)
    : options_(std::move(options)),
      listener_(Service::kHeartbeats, options_.secret, GuardedListener::places_for(options_.hosts),
                "heartbeats", "set cluster.heartbeat_timeout_s: 0 to disable them"),
      judge_(options_.judge, options_.hosts) {
  thread_ = std::thread([this] { loop(); });
}

Hub::~Hub() {
  ending_ = true;
  thread_.join();
}

bool Hub::wait_for_leaving(double at_most_s) const {
  const double deadline = steady_now_s() + at_most_s;
  while (others_connected_ > 0 && steady_now_s() < deadline) std::this_thread::sleep_for(10ms);
  return others_connected_ == 0 && silent_connected_ == 0;
}

void Hub::loop() {
  pthread_setname_np(pthread_self(), "echelon-hub");
  Standstill standstill;
  while (!ending_) {
    std::vector<pollfd> queries{{.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    for (const auto& peer : peers_) {
      const short events = peer->wire.has_output() ? POLLIN | POLLOUT : POLLIN;
      queries.push_back({.fd = peer->wire.fd(), .events = events, .revents = 0});
    }
    (void)poll(queries.data(), queries.size(), kLook_ms);
    const double now = steady_now_s();
    judge_.stood_still(standstill.lost_s(now));
    for (std::size_t n = 0; n + 1 < queries.size(); ++n) {
      if (queries[n + 1].revents != 0) serve(*peers_[n], now);
    }
    for (fs::Fd& socket : listener_.accept()) peers_.push_back(std::make_unique<Peer>(std::move(socket)));
    drop_closed(now);
    decide(now);
    tell_nodes(now);
  }
  if (announced_) return;
  for (const auto& peer : peers_) peer->wire.send({.kind = FrameKind::kClosing});
}

void Hub::serve(Peer& peer, double now) {
  peer.wire.flush();
  for (const Frame& frame : peer.wire.receive()) on_frame(peer, frame, now);
}

void Hub::on_frame(Peer& peer, const Frame& frame, double now) {
  const auto size = static_cast<int>(options_.hosts.size());
  if (peer.rank < 0) {
    if (frame.kind != FrameKind::kHello || frame.rank < 0 || frame.rank >= size) {
      ::shutdown(peer.wire.fd(), SHUT_RDWR);  // no rank of this run; drop_closed() removes it
      return;
    }
    peer.rank = frame.rank;
    processes_[peer.rank] = frame.process;
  }
  switch (frame.kind) {
    case FrameKind::kHello:
    case FrameKind::kBeat:
      judge_.received(peer.rank, frame.sign, now);
      peer.wire.send({.kind = FrameKind::kAck, .number = frame.number, .sign = {.awaited = silent_node_}});
      return;
    case FrameKind::kLeaving: return judge_.left(peer.rank);
    case FrameKind::kAnswer:
      if (examination_ && frame.process == processes_[examination_->rank])
        examination_->answer = frame.text_view();
      return;
    default: return;  // frames that only a hub sends
  }
}

void Hub::drop_closed(double now) {
  for (const auto& peer : peers_) {
    if (peer->wire.closed() && peer->rank >= 0) judge_.ended(peer->rank, now);
  }
  std::erase_if(peers_, [](const auto& peer) { return peer->wire.closed(); });
  int connected = 0;
  int silent = 0;
  for (const auto& peer : peers_) {
    const bool is_silent = std::ranges::find(silent_, peer->rank) != silent_.end();
    if (peer->rank > 0) ++(is_silent ? silent : connected);
  }
  others_connected_ = connected;
  silent_connected_ = silent;
}

Hub::Peer* Hub::find(int rank) {
  const auto found = std::ranges::find_if(peers_, [rank](const auto& peer) { return peer->rank == rank; });
  return found == peers_.end() ? nullptr : found->get();
}

void Hub::tell_nodes(double now) {
  constexpr double kBetween_s = 2;
  if (!options_.on_nodes || now - reported_nodes_s_ < kBetween_s) return;
  reported_nodes_s_ = now;
  const std::vector<NodeState> nodes = judge_.nodes(now);
  // A start that is refused before its first step leaves no file behind.
  const bool trains = std::ranges::any_of(nodes, [](const NodeState& node) { return node.step > 0; });
  if (trains) options_.on_nodes(nodes);
}

void Hub::decide(double now) {
  silent_node_ = judge_.silent_node(now);
  // Only the first verdict counts; later ones are its consequences.
  if (announced_) return;
  if (const auto finding = judge_.look(now)) {
    if (examine(*finding, now)) announce(*finding);
    return;
  }
  examination_.reset();
  if (const auto warning = judge_.straggler(now)) options_.on_warning(*warning);
}

/// Collects details before the verdict; true when there are no more to wait for. A silent process is
/// inspected by a rank of the same node, a stalled one sends its stack.
bool Hub::examine(const Finding& finding, double now) {
  const bool silent = finding.kind == Finding::Kind::kSilent;
  if (!silent && finding.kind != Finding::Kind::kStalled) return true;
  if (examination_ && examination_->rank == finding.rank)
    return !examination_->answer.empty() || now - examination_->began_s > kExamine_s;
  examination_ = Examination{.rank = finding.rank, .began_s = now, .answer = {}};
  const int asked =
      silent ? judge_.neighbor_of(finding.rank, now, options_.judge.silence_s / 2) : finding.rank;
  Peer* peer = asked < 0 ? nullptr : find(asked);
  if (peer == nullptr) return true;
  peer->wire.send(
      {.kind = silent ? FrameKind::kLookAt : FrameKind::kShowStack, .process = processes_[finding.rank]});
  return false;
}

void Hub::announce(const Finding& finding) {
  announced_ = true;
  Finding reported = finding;
  if (examination_ && examination_->rank == finding.rank && !examination_->answer.empty())
    reported.text += "; " + examination_->answer;
  for (std::size_t rank = 0; rank < options_.hosts.size(); ++rank) {
    const bool of_the_node = reported.kind == Finding::Kind::kNode &&
                             options_.hosts[rank] == options_.hosts[static_cast<std::size_t>(reported.rank)];
    const bool alone = reported.kind == Finding::Kind::kSilent && reported.rank == static_cast<int>(rank);
    if (of_the_node || alone) silent_.push_back(static_cast<int>(rank));
  }
  options_.on_verdict(reported);  // records first: ranks exit as soon as they get the verdict
  Frame verdict{.kind = FrameKind::kVerdict, .rank = reported.rank};
  verdict.set_text(reported.text);
  for (const auto& peer : peers_) peer->wire.send(verdict);
}

}  // namespace echelon
