#include "forecast/timeline.h"

#include <algorithm>
#include <set>

namespace echelon::forecast {
namespace {

constexpr std::size_t kStreams = 2;

Lane lane_of(const Message& message) {
  return message.kind == OperationKind::kAllGather ? Lane::kGather : Lane::kReduce;
}

class Player {
 public:
  Player(const Trace& trace, const Rates& rates)
      : trace_(trace), rates_(rates), messages_(trace.messages.size(), 0.0), marks_(trace.marks, 0.0) {}

  void leave_out(std::int64_t passes) {
    timeline_.left_out = passes;
    timeline_.behind_left_out = timeline_.spans.size();
  }

  void play(std::uint32_t from, std::uint32_t to, bool draws) {
    draws_ = draws;
    for (std::uint32_t i = from; i < to; ++i) play(trace_.events[i]);
  }

  [[nodiscard]] double now_s() const { return std::max({host_s_, stream_s_[0], stream_s_[1]}); }
  Timeline take() {
    timeline_.step_s = now_s();
    return std::move(timeline_);
  }
  /// Before the pass [from, to) is played again: what it waits for from the pass before it is what the pass
  /// after it waits for from it.
  void hand_over(std::uint32_t from, std::uint32_t to) {
    const std::vector<std::uint32_t> wanted = waited_for(0, from, from, to);
    const std::vector<std::uint32_t> given =
        waited_for(from, to, to, static_cast<std::uint32_t>(trace_.events.size()));
    for (std::size_t i = 0; i < std::min(wanted.size(), given.size()); ++i)
      messages_[wanted[i]] = messages_[given[i]];
  }

  /// Adds `times` repetitions of what happened since `before`.
  void repeat(const Timeline& before, double since_s, double times);
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }

 private:
  /// Messages issued in [from, to) for which [later, end) waits, in its order.
  [[nodiscard]] std::vector<std::uint32_t> waited_for(std::uint32_t from, std::uint32_t to,
                                                      std::uint32_t later, std::uint32_t end) const {
    std::set<std::uint32_t> issued;
    for (std::uint32_t i = from; i < to; ++i) {
      if (trace_.events[i].kind == Event::Kind::kIssue) issued.insert(trace_.events[i].index);
    }
    std::vector<std::uint32_t> found;
    for (std::uint32_t i = later; i < end; ++i) {
      if (trace_.events[i].kind == Event::Kind::kWait && issued.erase(trace_.events[i].index) > 0)
        found.push_back(trace_.events[i].index);
    }
    return found;
  }

  void play(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kWork: return work(trace_.works[event.index]);
      case Event::Kind::kIssue: return issue(event.index);
      case Event::Kind::kWait: {
        const Message& message = trace_.messages[event.index];
        if (trace_.groups[message.group].on_host) return hold_host(messages_[event.index]);
        return hold(event.stream, messages_[event.index], lane_of(message));
      }
      case Event::Kind::kMark:
        marks_[event.index] = std::max({stream_s_[event.stream], held_[event.stream], host_s_});
        return;
      case Event::Kind::kHold: return hold(event.stream, marks_[event.index], Lane::kCopy);
      case Event::Kind::kHostHold: return hold_host(marks_[event.index]);
      case Event::Kind::kSync: return hold_host(std::max(stream_s_[event.stream], held_[event.stream]));
    }
  }

  /// The stream may not go on before `until`, when the lane `cause` is done.
  void hold(std::uint8_t stream, double until, Lane cause) {
    if (until <= stream_s_[stream]) return;
    if (stream == 0 && until > held_[0]) cause_ = cause;
    held_[stream] = std::max(held_[stream], until);
  }
  void hold_host(double until) { host_s_ = std::max(host_s_, until); }

  void wait(double seconds, Lane cause) { timeline_.wait_s[index_of(cause)] += std::max(0.0, seconds); }

  void work(const Work& work) {
    const double seconds = rates_.seconds(work);
    if (work.on_host && rates_.has_device()) {
      draw(Lane::kHost, host_s_, host_s_ + seconds, work.name, work.place);
      host_s_ += seconds;
      return;
    }
    const std::size_t stream = std::min<std::size_t>(work.stream, kStreams - 1);
    host_s_ += rates_.launch_s();
    const double free_s = stream_s_[stream];
    if (stream == 0) {
      wait(held_[0] - free_s, cause_);
      wait(host_s_ - std::max(free_s, held_[0]), Lane::kHost);
    }
    const double begin = std::max({free_s, held_[stream], host_s_});
    stream_s_[stream] = begin + seconds;
    if (!rates_.has_device()) host_s_ = stream_s_[stream];
    draw(stream == 0 ? Lane::kCompute : Lane::kCopy, begin, begin + seconds, work.name, work.place);
    timeline_.flops += work.flops;
    NameTotal& total = timeline_.by_name[trace_.names[work.name]];
    total.seconds += seconds;
    total.flops += work.flops;
    total.bytes += work.bytes;
    total.cost = work.cost;
    total.count += std::max<std::int64_t>(1, work.tasks);
  }

  void issue(std::uint32_t number) {
    const Message& message = trace_.messages[number];
    const Group& group = trace_.groups[message.group];
    const double seconds = rates_.seconds(message, group);
    host_s_ += rates_.launch_s();
    if (!rates_.has_device()) {
      draw(Lane::kGather, host_s_, host_s_ + seconds, message.label, 0);
      wait(seconds, lane_of(message));
      messages_[number] = stream_s_[0] = host_s_ += seconds;
      return;
    }
    messages_[number] = host_s_ + seconds;
    if (group.on_host) return;  // beside the device's lanes
    // A collective waits for what was issued to its stream before. Lanes of devices share their links: what
    // runs at the same time takes as long as one after the other.
    const double begin = std::max({host_s_, link_s_, stream_s_[message.stream], held_[message.stream]});
    messages_[number] = link_s_ = begin + seconds;
    stream_s_[0] += seconds * rates_.taken_by_messages();
    draw(lane_of(message), begin, link_s_, message.label, 0);
  }

  void draw(Lane lane, double begin, double end, std::uint16_t name, std::uint16_t place) {
    timeline_.busy_s[index_of(lane)] += end - begin;
    if (draws_) timeline_.spans.push_back({lane, begin, end, name, place});
  }

  const Trace& trace_;
  const Rates& rates_;
  Timeline timeline_;
  double host_s_ = 0;
  std::array<double, kStreams> stream_s_{};
  std::array<double, kStreams> held_{};
  double link_s_ = 0;             ///< when the link between devices is free
  Lane cause_ = Lane::kHost;      ///< of held_[0]
  std::vector<double> messages_;  ///< when each is done
  std::vector<double> marks_;
  bool draws_ = true;
};

void Player::repeat(const Timeline& before, double since_s, double times) {
  const double more = (now_s() - since_s) * times;
  host_s_ += more;
  for (double& s : stream_s_) s += more;
  for (double& s : held_) s += more;
  link_s_ += more;
  for (double& s : messages_) s += more;
  for (double& s : marks_) s += more;
  const auto add = [&](double& value, double old) { value += (value - old) * times; };
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    add(timeline_.busy_s[lane], before.busy_s[lane]);
    add(timeline_.wait_s[lane], before.wait_s[lane]);
  }
  add(timeline_.flops, before.flops);
  for (auto& [name, total] : timeline_.by_name) {
    const auto found = before.by_name.find(name);
    const NameTotal old = found == before.by_name.end() ? NameTotal{} : found->second;
    add(total.seconds, old.seconds);
    add(total.flops, old.flops);
    add(total.bytes, old.bytes);
    total.count += static_cast<std::int64_t>(static_cast<double>(total.count - old.count) * times);
  }
}

}  // namespace

const char* name_of(Lane lane) {
  constexpr const char* kNames[kLanes] = {"host", "compute", "copy", "gather", "reduce"};
  return kNames[index_of(lane)];
}

Timeline play(const Trace& trace, const Rates& rates, std::int64_t passes) {
  Player player(trace, rates);
  const auto end = static_cast<std::uint32_t>(trace.events.size());
  if (trace.passes.size() < 3) {
    player.play(0, end, true);
    return player.take();
  }
  player.play(0, trace.passes[1], true);
  if (passes >= static_cast<std::int64_t>(trace.passes.size()))
    player.play(trace.passes[1], trace.passes[2], true);
  // Passes in between repeat. The last of many is the pattern for the rest, because the first find the lanes
  // as those before left them.
  constexpr std::int64_t kPlayed = 32;
  const std::int64_t more =
      std::max<std::int64_t>(0, passes - static_cast<std::int64_t>(trace.passes.size()));
  for (std::int64_t i = 0; i < std::min(more, kPlayed); ++i) {
    const bool is_pattern = i + 1 == kPlayed;
    const Timeline before = is_pattern ? player.timeline() : Timeline();
    const double since_s = player.now_s();
    player.hand_over(trace.passes[1], trace.passes[2]);
    player.play(trace.passes[1], trace.passes[2], false);
    if (is_pattern) player.repeat(before, since_s, static_cast<double>(more - kPlayed));
  }
  player.leave_out(more);
  player.play(trace.passes[2], end, true);
  return player.take();
}

}  // namespace echelon::forecast
