#include "liveness/life_watch.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

#include "base/log.h"
#include "base/net/handshake.h"
#include "base/standstill.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "comm/exchange.h"
#include "liveness/median.h"
#include "liveness/record.h"
#include "liveness/within.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;
constexpr int kLook_ms = 50;
constexpr double kConnect_s = 3;  // per address
// An error of a collective waits for a verdict this long plus two heartbeat intervals.
constexpr double kEcho_s = 2;
constexpr double kDisk_s = 2;   // limit for writing to the log and run folder, whose disk may be what hangs
constexpr double kGrace_s = 5;  // after a verdict, for an orderly exit
constexpr double kLastToLeave_s = 3;  // rank 0, which can end the others, stays longer
constexpr std::size_t kRoundTrips = 9;
constexpr std::size_t kShownFrames = 6;

/// Waiting ranks give up after cluster.timeout_s: the cause must be found and examined before that.
double before_the_deadline(const ClusterOptions& cluster) {
  constexpr double kJudging_s = 7;
  const auto timeout = static_cast<double>(cluster.timeout_s);
  return std::max(timeout / 2, timeout - kJudging_s - 2 * cluster.heartbeat_interval_s);
}

std::string who_am_i(const JobInfo& job) {
  return str("rank ", job.rank, "/", job.size, " ", job.host);
}

/// The data that a rank sends about itself before heartbeats begin.
struct Introduction {
  ServiceCard card;  ///< tells the hub where the rank is; rank 0's, where the hub is
  Secret secret{};   ///< rank 0's counts
  auto fields() { return std::tie(card, secret); }
};

}  // namespace

LifeWatch::LifeWatch(Options options, Job& job, const ProcessWatch& watch)
    : options_(std::move(options)), job_(job.info()), watch_(watch) {
  connect(job);
  if (wire_) thread_ = std::thread([this] { loop(); });
}

void LifeWatch::connect(Job& job) {
  const auto timeout = options_.cluster.heartbeat_timeout_s;
  Introduction mine{.card = own_card(0)};
  if (job_.rank == 0) {
    Hub::Options hub{
        .judge = {.interval_s = options_.cluster.heartbeat_interval_s,
                  .silence_s = timeout,
                  .stall_s = before_the_deadline(options_.cluster),
                  .straggler_factor = options_.cluster.straggler_factor},
        .hosts = job_.hosts,
        .secret = new_secret(),
        .on_verdict = [this](const Finding& finding) { on_verdict(finding); },
        .on_warning =
            [](const Finding& finding) { run_within(kDisk_s, [finding] { log::warn(finding.text); }); }};
    nodes_ = std::make_unique<NodesFile>(options_.logs / "nodes.json");
    hub.on_nodes = [this](const std::vector<NodeState>& nodes) {
      if (shows_nodes_) nodes_->show(nodes);
    };
    mine.secret = hub.secret;
    hub_ = std::make_unique<Hub>(std::move(hub));
    mine.card = own_card(hub_->port());
  }
  const auto all = gather_values(job, mine, "heartbeats");
  const Calling calling{
      .service = Service::kHeartbeats, .secret = all[0].secret, .per_address_s = kConnect_s};
  if (hub_) hub_->expect(mapped(all, &Introduction::card));
  std::string why;
  auto socket = call_service(all[0].card, calling, why);
  if (!socket) {
    unwatched_ = true;
    log::warn(str("no heartbeats: rank 0 (", job_.hosts[0], ") cannot be reached (", why,
                  "); a lost peer will be noticed only after cluster.timeout_s (", options_.cluster.timeout_s,
                  " s)"));
    return;
  }
  wire_ = std::make_unique<Wire>(std::move(*socket));
  Frame hello{.kind = FrameKind::kHello,
              .rank = job_.rank,
              .process = getpid(),
              .sign = {.now = watch_.activity->now()}};
  wire_->send(hello);
  last_ack_s_ = steady_now_s();
}

LifeWatch::~LifeWatch() {
  leaving_ = true;
  if (thread_.joinable()) thread_.join();
}

void LifeWatch::loop() {
  pthread_setname_np(pthread_self(), "echelon-beat");
  double verdict_s = 0;
  Standstill standstill;
  while (true) {
    if (leaving_) {
      if (!ended_) leave();
      return;
    }
    const short events = wire_->has_output() ? POLLIN | POLLOUT : POLLIN;
    pollfd query{.fd = wire_->closed() ? -1 : wire_->fd(), .events = events, .revents = 0};
    (void)poll(&query, 1, kLook_ms);
    const double now = steady_now_s();
    last_ack_s_ += standstill.lost_s(now);
    if (query.revents != 0) {
      wire_->flush();
      for (const Frame& frame : wire_->receive()) {
        if (frame.kind == FrameKind::kAck) node_is_silent_ = frame.sign.awaited >= 0;
        on_frame(frame, now);
      }
    }
    if (now - last_beat_s_ >= options_.cluster.heartbeat_interval_s) beat(now);
    if (!ended_) judge_hub(now);
    if (!ended_) continue;
    if (verdict_s == 0) verdict_s = now;
    if (now - verdict_s < kGrace_s + (job_.rank == 0 ? kLastToLeave_s : 0)) continue;
    run_within(kDisk_s,
               [] { log::note("this process did not exit by itself after the verdict and is killed"); });
    // Not exit(): destructors and atexit handlers would wait for the thread that hangs.
    _exit(static_cast<int>(Code::kPeer));
  }
}

void LifeWatch::leave() {
  wire_->send({.kind = FrameKind::kLeaving, .rank = job_.rank});
  for (int wait = 0; wait < 20 && wire_->has_output() && !wire_->closed(); ++wait) {
    std::this_thread::sleep_for(10ms);
    wire_->flush();
  }
}

void LifeWatch::beat(double now) {
  Frame frame{.kind = FrameKind::kBeat,
              .rank = job_.rank,
              .number = ++beats_,
              .sign = {.now = watch_.activity->now(), .round_trip_s = median(round_trips_)}};
  Sign& sign = frame.sign;
  const std::map<int, double> awaited = watch_.awaited->take();
  double most = 0;
  for (const auto& [rank, seconds] : awaited) {
    if (seconds <= most) continue;
    most = seconds;
    sign.awaited = rank;
  }
  for (const auto& [rank, seconds] : awaited) {
    if (host_of(rank) == host_of(sign.awaited)) sign.awaited_share += seconds / (now - last_beat_s_);
  }
  last_beat_s_ = now;
  wire_->send(frame);
}

/// The answer goes first: the log's disk may be what the training thread waits for.
void LifeWatch::show_stack(Frame answer) {
  const std::vector<std::string> frames = probe_.take();
  const auto shown = static_cast<std::ptrdiff_t>(std::min(frames.size(), kShownFrames));
  answer.set_text(frames.empty() ? "its training thread does not respond: it is blocked in the kernel"
                                 : "its stack: " + join({frames.begin(), frames.begin() + shown}, " < "));
  wire_->send(answer);
  if (frames.empty()) return;
  run_within(kDisk_s, [frames] {
    log::keep();
    log::note("the training thread's stack, requested because others wait for it:");
    for (const std::string& frame : frames) log::note("  " + frame);
  });
}

void LifeWatch::on_frame(const Frame& frame, double now) {
  Frame answer{.kind = FrameKind::kAnswer, .rank = job_.rank, .process = frame.process};
  switch (frame.kind) {
    case FrameKind::kAck:
      last_ack_s_ = now;
      if (frame.number != beats_ || frame.number == 0) return;
      round_trips_.insert(round_trips_.begin(), now - last_beat_s_);
      if (round_trips_.size() > kRoundTrips) round_trips_.pop_back();
      return;
    case FrameKind::kShowStack: return show_stack(answer);
    case FrameKind::kLookAt: answer.set_text(look_at_process(frame.process)); return wire_->send(answer);
    case FrameKind::kVerdict: return end_by(std::string(frame.text_view()), false);
    case FrameKind::kClosing: hub_closed_ = true; return;
    default: return;
  }
}

/// Rank 0 watches all others; each of them watches rank 0.
void LifeWatch::judge_hub(double now) {
  if (hub_closed_ || job_.rank == 0) return;
  const std::string hub = str("rank 0 (", job_.hosts[0], ")");
  if (wire_->closed())
    return end_by(
        str(hub,
            " has died: its process, or its node, ended without reporting an error; see logs/rank-0.log"),
        true);
  const double silence = now - last_ack_s_;
  if (silence <= options_.cluster.heartbeat_timeout_s) return;
  end_by(
      str(hub, " has sent no heartbeat for ", std::lround(silence),
          " s: its node, or the network between it and ", job_.host, ", is down, or its process is stopped"),
      true);
}

void LifeWatch::end_by(const std::string& verdict, bool mine) {
  if (ended_) return;
  watch_.failure->set(verdict);  // in memory first: writing may hang
  ended_ = true;
  // One line per node, because a rank cannot know which others are left. On rank 0's node local rank 1 prints
  // it.
  const bool speaks = mine && job_.local_rank == (job_.host == job_.hosts[0] ? 1 : 0);
  const LostPeer failure{.sentence = verdict,
                         .failed_s = utc_now_s() - (steady_now_s() - last_ack_s_),
                         .step = watch_.activity->now().step,
                         .host = job_.hosts[0],
                         .certain = false};
  run_within(kDisk_s, [failure, speaks, logs = options_.logs, who = who_am_i(job_)] {
    log::keep();
    log::note("the run ends: " + failure.sentence);
    if (!speaks) return;
    log::error(str("echelon: ", who, ": ", failure.sentence));
    note_peer_failure(logs, failure);
  });
}

void LifeWatch::on_verdict(const Finding& finding) {
  if (unwatched_) {  // rank 0 has no connection to its own hub
    watch_.failure->set(finding.text);
    ended_ = true;
  }
  // All ranks wait for the lost one in the step that this rank is in.
  const LostPeer failure{.sentence = finding.text,
                         .failed_s = utc_now_s() - finding.since_s,
                         .step = watch_.activity->now().step,
                         .rank = finding.rank,
                         .host = host_of(finding.rank),
                         .node_suspect = finding.node_suspect};
  run_within(kDisk_s,
             [finding, failure, logs = options_.logs, who = who_am_i(job_), tell = options_.on_verdict] {
               log::keep();
               log::error(str("echelon: ", who, ": ", finding.text));
               if (finding.node_suspect) note_suspect(logs, failure.host, finding.text);
               note_peer_failure(logs, failure);  // last: the batch script acts on it
               if (tell) tell(finding.since_s);
               log::flush();
             });
}

LifeWatch::Conclusion LifeWatch::conclude(const Error& error) {
  const bool echo = error.code() == Code::kPeer;
  const double deadline = steady_now_s() + kEcho_s + 2 * options_.cluster.heartbeat_interval_s;
  const double last_deadline = deadline + options_.cluster.heartbeat_timeout_s;
  // A collective that fails with kPeer is usually an echo of another rank's end. The verdict, which names
  // the cause, arrives a moment later and replaces this error. Of a node that is lost the network may tell
  // long before its heartbeats are missed.
  while (echo && wire_ && !ended_ && steady_now_s() < (node_is_silent_ ? last_deadline : deadline))
    std::this_thread::sleep_for(10ms);
  if (!ended_ || !echo) {  // a rank's own failure is reported even if there is a verdict
    leaving_ = true;
    return {error, !error.is_reported()};
  }
  log::note(error.what());
  // Rank 0 makes the launcher end the rest, stopped processes too; so it waits for those that can exit by
  // themselves.
  const bool all_gone = hub_ && hub_->wait_for_leaving(kLastToLeave_s);
  return {Error::already_reported(Code::kPeer), job_.rank == 0 && !all_gone};
}

}  // namespace echelon
