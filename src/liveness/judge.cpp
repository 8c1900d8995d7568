#include "liveness/judge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/number.h"
#include "base/str.h"
#include "liveness/median.h"

namespace echelon {
namespace {

/// Processes of a dying node do not end in the same instant, and the connection of a rank that reports its
/// own failure may close before its message is read: a verdict waits this long.
constexpr double kTogether_s = 0.5;
/// After a suspended job continues, its collectives look old for a moment: a stall must last this long.
constexpr double kStallHolds_s = 3;
constexpr std::int64_t kSlowSteps = 10;
constexpr double kSlowFor_s = 5;
constexpr double kSlowWork_s = 0.02;  // smaller differences are not worth a warning
constexpr std::int64_t kSlowBeats = 10;
constexpr double kSmoothing = 0.06;  // weight of the newest heartbeat in averages: a memory of about 16
constexpr double kAwaited = 0.7;     // fraction of the waiting time that a straggler at the limit would cause
constexpr double kSlowNetworkFactor = 10;
constexpr double kSlowNetwork_s = 0.005;
constexpr double kBetweenWarnings_s = 600;

double milliseconds(double seconds) {
  return std::round(seconds * 1e4) / 10;
}

std::string listed(const std::vector<int>& ranks) {
  return join(mapped(ranks, [](int rank) { return std::to_string(rank); }), ", ");
}

}  // namespace

Judge::Judge(const JudgeOptions& options, std::vector<std::string> hosts)
    : options_(options), hosts_(std::move(hosts)), layout_(hosts_), peers_(hosts_.size()) {}

std::vector<NodeState> Judge::nodes(double time_s) const {
  constexpr double kNoticed = 0.5;  // of the time after which a silent rank is judged
  std::vector<NodeState> nodes;
  for (int number = 0; number < layout_.nodes(); ++number) {
    const std::vector<int>& ranks = layout_.ranks_of(number);
    NodeState node{.host = layout_.host_of(number),
                   .ranks = static_cast<int>(ranks.size()),
                   .step = peer(ranks.front()).now.step};
    for (const int rank : ranks) {
      const Peer& one = peer(rank);
      node.step = std::min(node.step, one.now.step);
      const double silent_s = one.known && !one.left ? std::max(0.0, time_s - one.received_s) : 0;
      node.silent_s = std::max(node.silent_s, silent_s);
      NodeLife life = NodeLife::kAlive;
      if (one.ended)
        life = NodeLife::kEnded;
      else if (one.left)
        life = NodeLife::kLeft;
      else if (silent_s > kNoticed * options_.silence_s)
        life = NodeLife::kSilent;
      if (life == NodeLife::kEnded || node.life == NodeLife::kAlive) node.life = life;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string Judge::name_of(int rank) const {
  return str("rank ", rank, " (", hosts_[static_cast<std::size_t>(rank)], ")");
}

void Judge::received(int rank, const Sign& sign, double time_s) {
  const Activity::Now& now = sign.now;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (const std::int64_t steps = now.steps - peer.now.steps; steps > 0) {
    peer.work_s = (now.work_s - peer.now.work_s) / static_cast<double>(steps);
    peer.new_steps += steps;
  }
  peer.new_round_trip = true;
  peer.known = true;
  peer.received_s = time_s;
  static_cast<Sign&>(peer) = sign;
  new_votes_ = new_votes_ || rank == 0;
}

void Judge::ended(int rank, double time_s) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.left || peer.ended) return;
  peer.ended = true;
  peer.ended_s = time_s;
}

void Judge::stood_still(double seconds) {
  for (Peer& peer : peers_) {
    peer.received_s += seconds;
    peer.ended_s += seconds;
  }
}

void Judge::left(int rank) {
  peers_[static_cast<std::size_t>(rank)].left = true;
}

int Judge::neighbor_of(int rank, double time_s, double within_s) const {
  for (const int other : layout_.ranks_beside(rank)) {
    const Peer& candidate = peer(other);
    if (other != rank && candidate.known && !candidate.ended && !candidate.left &&
        time_s - candidate.received_s <= within_s)
      return other;
  }
  return -1;
}

bool Judge::whole_node_gone(int rank, double time_s) const {
  return std::ranges::all_of(layout_.ranks_beside(rank), [&](int other) {
    const Peer& candidate = peer(other);
    if (!candidate.known) return true;  // no heartbeat yet: no evidence either way
    return !candidate.left && (candidate.ended || time_s - candidate.received_s > options_.silence_s / 2);
  });
}

int Judge::silent_node(double time_s) const {
  constexpr double kMissedBeats = 2.5;
  const auto is_silent = [&](int rank) {
    const Peer& candidate = peer(rank);
    return candidate.known && !candidate.left && !candidate.ended &&
           time_s - candidate.received_s > kMissedBeats * options_.interval_s;
  };
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    const auto rank = static_cast<int>(n);
    if (is_silent(rank) && std::ranges::all_of(layout_.ranks_beside(rank), is_silent)) return rank;
  }
  return -1;
}

std::optional<Finding> Judge::look(double time_s) {
  // MPI's network library may notice a lost node first, and end processes of other nodes. As a process that
  // ends is named within kTogether_s, one beside a silent node ended after the node fell silent.
  if (silent_node(time_s) < 0) {
    if (auto finding = look_for_ended(time_s)) return finding;
  }
  if (auto finding = look_for_silent(time_s)) return finding;
  return look_for_stalled(time_s);
}

std::optional<Finding> Judge::look_for_ended(double time_s) const {
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    const auto rank = static_cast<int>(n);
    if (!peers_[n].ended || peers_[n].left || time_s - peers_[n].ended_s < kTogether_s) continue;
    const double since = time_s - peers_[n].ended_s;
    const std::vector<int>& ranks = layout_.ranks_beside(rank);
    const auto known = std::ranges::count_if(ranks, [this](int other) { return peer(other).known; });
    const bool together = known > 1 && whole_node_gone(rank, time_s);
    if (together)
      return Finding{.kind = Finding::Kind::kNode,
                     .rank = rank,
                     .text = str("node ", hosts_[n], " is lost: its processes (ranks ", listed(ranks),
                                 ") ended at the same moment; rank ", rank, " was ", describe(peers_[n].now)),
                     .since_s = since,
                     .node_suspect = true};
    return Finding{
        .kind = Finding::Kind::kEnded,
        .rank = rank,
        .text = str(name_of(rank), " has died: its process ended without reporting an error while ",
                    describe(peers_[n].now), "; the system's log of that node may say why ",
                    "(killed for memory?)"),
        .since_s = since};
  }
  return std::nullopt;
}

std::optional<Finding> Judge::look_for_silent(double time_s) const {
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    const Peer& silent = peers_[n];
    const double since = time_s - silent.received_s;
    if (!silent.known || silent.left || silent.ended || since <= options_.silence_s) continue;
    const auto rank = static_cast<int>(n);
    const std::vector<int>& ranks = layout_.ranks_beside(rank);
    const std::string was = str("for ", rounded(since, 1), " s; last it was ", describe(silent.now));
    if (whole_node_gone(rank, time_s))
      return Finding{
          .kind = Finding::Kind::kNode,
          .rank = rank,
          .text = str("node ", hosts_[n], " (", ranks.size() > 1 ? "ranks " : "rank ", listed(ranks),
                      ") has sent no heartbeat ", was, "; it is down, cut off the network, or not running"),
          .since_s = since,
          .node_suspect = true};
    return Finding{.kind = Finding::Kind::kSilent,
                   .rank = rank,
                   .text = str(name_of(rank), " has sent no heartbeat ", was),
                   .since_s = since};
  }
  return std::nullopt;
}

std::optional<Finding> Judge::look_for_stalled(double time_s) {
  std::uint64_t most = 0;
  double waited = 0;
  int waiting = 0;
  for (const Peer& candidate : peers_) {
    if (!candidate.known || candidate.left) continue;
    most = std::max(most, candidate.now.issued);
    if (candidate.now.under_way_s < options_.stall_s) continue;
    ++waiting;
    waited = std::max(waited, candidate.now.under_way_s);
  }
  if (waiting == 0) {
    stalled_since_s_ = -1;
    return std::nullopt;
  }
  if (stalled_since_s_ < 0) stalled_since_s_ = time_s;
  if (time_s - stalled_since_s_ < kStallHolds_s) return std::nullopt;
  int last = -1;
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    // The culprit is the rank that has issued the fewest operations; those that wait have issued one more.
    if (!peers_[n].known || peers_[n].left || peers_[n].now.issued >= most) continue;
    if (last < 0 || peers_[n].now.issued < peer(last).now.issued) last = static_cast<int>(n);
  }
  if (last < 0) return std::nullopt;  // all have issued it: the communicators' deadline reports what is stuck
  return Finding{.kind = Finding::Kind::kStalled,
                 .rank = last,
                 .text = str(name_of(last), " has made no progress while ", waiting,
                             waiting == 1 ? " rank has waited for it for " : " ranks have waited for it for ",
                             rounded(waited, 1), " s: it is ", describe(peer(last).now)),
                 .since_s = waited};
}

std::optional<Finding> Judge::straggler(double time_s) {
  if (options_.straggler_factor <= 0 || peers_.size() < 3) return std::nullopt;
  auto finding = slow_work(time_s);
  if (!finding) finding = slow_network();
  if (!finding) finding = awaited_by_most();
  if (!finding || !may_warn(hosts_[static_cast<std::size_t>(finding->rank)], time_s)) return std::nullopt;
  return finding;
}

std::optional<Finding> Judge::slow_work(double time_s) {
  std::vector<double> all;
  for (const Peer& candidate : peers_) {
    if (candidate.known && candidate.now.steps > 0) all.push_back(candidate.work_s);
  }
  // Until every rank has finished a step there is no fair median.
  if (all.size() != peers_.size()) return std::nullopt;
  const double usual = median(all);
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    Peer& candidate = peers_[n];
    const std::int64_t news = std::exchange(candidate.new_steps, 0);
    if (candidate.work_s < std::max(options_.straggler_factor * usual, usual + kSlowWork_s)) {
      candidate.slow_steps = 0;
      continue;
    }
    if (candidate.slow_steps == 0) candidate.slow_since_s = time_s;
    candidate.slow_steps += news;
    if (candidate.slow_steps < kSlowSteps || time_s - candidate.slow_since_s < kSlowFor_s) continue;
    candidate.slow_steps = 0;
    const auto rank = static_cast<int>(n);
    return Finding{
        .kind = Finding::Kind::kStraggler,
        .rank = rank,
        .text = str(name_of(rank), " is a straggler: it works ", milliseconds(candidate.work_s),
                    " ms a step where the median is ", milliseconds(usual), " ms; all others wait for it"),
        .since_s = kSlowFor_s,
        .node_suspect = true};
  }
  return std::nullopt;
}

std::optional<Finding> Judge::slow_network() {
  // There is no network between rank 0 and its own node, so that node is left out.
  std::vector<double> all;
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    if (hosts_[n] != hosts_[0] && peers_[n].known && peers_[n].round_trip_s > 0)
      all.push_back(peers_[n].round_trip_s);
  }
  if (all.size() < 2) return std::nullopt;
  const double usual = median(all);
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    Peer& candidate = peers_[n];
    if (hosts_[n] == hosts_[0]) continue;
    if (!std::exchange(candidate.new_round_trip, false)) continue;
    const bool slow =
        candidate.round_trip_s > kSlowNetwork_s && candidate.round_trip_s > kSlowNetworkFactor * usual;
    candidate.slow_round_trips = slow ? candidate.slow_round_trips + 1 : 0;
    if (candidate.slow_round_trips < kSlowBeats) continue;
    candidate.slow_round_trips = 0;
    return Finding{.kind = Finding::Kind::kStraggler,
                   .rank = static_cast<int>(n),
                   .text = str("node ", hosts_[n], " has a slow network: a message to ", hosts_[0],
                               " and back takes ", milliseconds(candidate.round_trip_s),
                               " ms, where the median of the nodes is ", milliseconds(usual), " ms"),
                   .since_s = 0,
                   .node_suspect = true};
  }
  return std::nullopt;
}

/// Finds slow processors that the measured work of a step does not show. Each rank votes with the share of
/// its time that it waits for another. Ranks of the same node have no vote on it (on a single node: the rank
/// itself has none). Averaged over about 16 heartbeats. If all wait for all, nobody stands out and nobody is
/// reported.
std::optional<Finding> Judge::awaited_by_most() {
  if (!std::exchange(new_votes_, false)) return std::nullopt;
  const bool by_node = std::ranges::any_of(hosts_, [this](const auto& host) { return host != hosts_[0]; });
  const auto concerns = [&](std::size_t n, std::size_t other) {
    return by_node ? hosts_[other] == hosts_[n] : other == n;
  };
  std::size_t most = 0;
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    double votes = 0;
    double voters = 0;
    for (std::size_t other = 0; other < peers_.size(); ++other) {
      if (concerns(n, other)) continue;
      voters += 1;
      const int awaited = peers_[other].awaited;
      if (awaited >= 0 && concerns(n, static_cast<std::size_t>(awaited)))
        votes += peers_[other].awaited_share;
    }
    peers_[n].awaited_by += kSmoothing * (votes / voters - peers_[n].awaited_by);
    if (peers_[n].awaited_by > peers_[most].awaited_by) most = n;
  }
  double next = 0;
  for (std::size_t n = 0; n < peers_.size(); ++n) {
    if (!concerns(most, n)) next = std::max(next, peers_[n].awaited_by);
  }
  const double share = peers_[most].awaited_by;
  const double limit = kAwaited * (1 - 1 / std::max(1.0, options_.straggler_factor));
  if (share < limit || share < options_.straggler_factor * next) return std::nullopt;
  const auto rank = static_cast<int>(most);
  return Finding{.kind = Finding::Kind::kStraggler,
                 .rank = rank,
                 .text = str(by_node ? str("node ", hosts_[most]) : name_of(rank),
                             " is a straggler: the other ranks spend ", std::lround(100 * share),
                             " % of their time waiting for it"),
                 .since_s = 0,
                 .node_suspect = true};
}

bool Judge::may_warn(const std::string& host, double time_s) {
  const auto [last, first] = warned_.try_emplace(host, time_s);
  if (!first && time_s - last->second < kBetweenWarnings_s) return false;
  last->second = time_s;
  return true;
}

}  // namespace echelon
