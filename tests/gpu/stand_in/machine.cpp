#include "gpu/stand_in/machine.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/str.h"

namespace echelon::stand_in {
namespace {

using namespace std::chrono_literals;
thread_local Host t_host;
thread_local int t_device = 0;

constexpr int kPoison = 0xA5;

/// The timeline's next moment.
void tick(Clock& clock, int timeline) {
  const auto at = static_cast<std::size_t>(timeline);
  if (clock.size() <= at) clock.resize(at + 1);
  ++clock[at];
}

const std::byte* library_of(void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) == 0 ? nullptr : static_cast<const std::byte*>(info.dli_fbase);
}

}  // namespace

std::string describe(const Site& site) {
  static constexpr const char* kNames[] = {"cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery",
                                           "ncclCommGetAsyncError", "cudaSetDevice"};
  std::string text = str(kNames[static_cast<std::size_t>(site.order)], " called at");
  for (const std::ptrdiff_t caller : site.callers) text += str(" +0x", std::hex, caller);
  return text;
}

Machine::Machine(const MachineOptions& options)
    : options_(options),
      random_(options.seed),
      sent_(static_cast<std::size_t>(options.ranks), 0),
      running_(static_cast<std::size_t>(options.ranks), 0) {
  report_.calls.resize(static_cast<std::size_t>(options.ranks));
  idle_us_ = chance() < 0.3 ? 150 : 0;
  for (int rank = 0; rank < options.ranks; ++rank) {
    enter(rank);
    defaults_.push_back(&new_stream());
  }
  leave();
  worker_ = std::thread([this] { work(); });
}

Machine::~Machine() {
  release();
  {
    const auto held = lock();
    ending_ = true;
    changed();
  }
  worker_.join();
}

void Machine::enter(int rank) {
  const auto held = lock();
  t_host = {.machine = this, .rank = rank, .timeline = books_.open(), .clock = {}};
  tick(t_host.clock, t_host.timeline);
}

void Machine::leave() {
  t_host = {};
}

Machine* Machine::current() {
  return t_host.machine;
}

Machine& Machine::of(cudaStream_t stream) {
  return stream == nullptr ? *current() : *reinterpret_cast<Stream*>(stream)->machine;
}

void Machine::set_device(int device) {
  t_device = device;
}

void Machine::needs_device_of(int rank, const char* call) {
  if (rank >= 0 && t_device != rank)
    fault(str(call, " for the device of rank ", rank, " while the thread's is ", t_device));
}

bool Machine::on_one_node(int rank, int other) const {
  const int per_node = options_.ranks_per_node == 0 ? options_.ranks : options_.ranks_per_node;
  return rank / per_node == other / per_node;
}

Host& Machine::host() {
  if (t_host.machine != this) {
    t_host = {.machine = this, .rank = -1, .timeline = books_.open(), .clock = {}};
    tick(t_host.clock, t_host.timeline);
  }
  return t_host;
}

void* Machine::device_memory(std::size_t bytes) {
  const auto held = lock();
  return allocate(bytes);
}

void* Machine::allocate(std::size_t bytes) {
  auto memory = std::make_unique<std::byte[]>(std::max<std::size_t>(bytes, 1));
  std::memset(memory.get(), kPoison, bytes);
  void* at = memory.get();
  books_.fresh({at, bytes});
  memory_[at] = {std::move(memory), bytes};
  return at;
}

std::size_t Machine::bytes_of(void* memory) const {
  const auto found = memory_.find(memory);
  return found == memory_.end() ? 0 : found->second.second;
}

bool Machine::inside(const std::vector<Range>& ranges, const std::string& what) {
  for (const Range& range : ranges) {
    if (range.bytes == 0) continue;
    const auto* begin = static_cast<const std::byte*>(range.memory);
    auto found = memory_.upper_bound(const_cast<std::byte*>(begin));
    const bool known =
        found != memory_.begin() &&
        begin + range.bytes <= std::prev(found)->second.first.get() + std::prev(found)->second.second;
    if (known) continue;
    fault(str(what, " touches bytes outside of what was taken"));
    return false;
  }
  return true;
}

void Machine::free_range(void* memory, Stream& stream) {
  const std::size_t bytes = bytes_of(memory);
  if (bytes == 0) return fault("memory is freed that was not taken");
  push(stream, {.name = named("cudaFreeAsync"),
                .writes = {{memory, bytes}},
                .run = [memory, bytes] { std::memset(memory, kPoison, bytes); },
                .frees = true});
}

void Machine::pin(void* memory, std::size_t bytes) {
  pinned_[memory] = bytes;
}

void Machine::unpin(void* memory) {
  if (pinned_.erase(memory) == 0) fault("host memory is freed that was not taken");
}

bool Machine::pinned(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  return std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& range) {
    const auto* begin = static_cast<const std::byte*>(range.first);
    return at >= begin && at < begin + range.second;
  });
}

void Machine::launch(cudaStream_t handle, const std::string& name, std::vector<Range> reads,
                     std::vector<Range> writes, std::function<void()> run) {
  const auto held = lock();
  needs_device_of(stream(handle).rank, name.c_str());
  push(stream(handle),
       {.name = named(name), .reads = std::move(reads), .writes = std::move(writes), .run = std::move(run)});
}

Report Machine::report() const {
  const auto held = lock();
  return report_;
}

std::uint64_t Machine::sent(int rank) const {
  const auto held = lock();
  return sent_[static_cast<std::size_t>(rank)];
}

void Machine::break_here() {
  auto held = lock();
  if (tell_) tell_(host().rank);
  (void)wait(held, [] { return false; });
}

void Machine::lose_device() {
  const auto held = lock();
  lost_.insert(host().rank);
}

void Machine::release() {
  const auto held = lock();
  released_ = true;
  changed();
}

std::string Machine::standstill() const {
  const auto held = lock();
  std::string text;
  for (const Stream& stream : streams_) {
    if (!stream.queue.empty())
      text += str("rank ", stream.rank, ": ", *stream.queue.front().name, " and ", stream.queue.size() - 1,
                  " behind it; ");
  }
  return text.empty() ? "nothing is under way" : text;
}

bool Machine::begin_call() {
  int pause_us = 0;
  {
    auto held = lock();
    if (released_ || lost_.contains(host().rank)) return false;
    if (chance() < 0.05) pause_us = static_cast<int>(chance() * 60);
    const Host& own = host();
    if (own.rank >= 0) {
      const int call = ++report_.calls[static_cast<std::size_t>(own.rank)];
      if (own.rank == options_.fated_rank && call == options_.fated_call && options_.fate != Fate::kGoesOn) {
        if (options_.fate == Fate::kBreaks && tell_) tell_(own.rank);
        if (options_.fate != Fate::kFails) (void)wait(held, [] { return false; });
        return false;
      }
    }
  }
  if (pause_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
  return true;
}

bool Machine::left_out(Order order) {
  constexpr int kFrames = 12;
  void* frames[kFrames];
  const int count = ::backtrace(frames, kFrames);
  Site site{.order = order, .callers = {}};
  const std::byte* own = library_of(reinterpret_cast<void*>(&library_of));
  int at = 0;
  while (at < count && library_of(frames[at]) != own) ++at;  // a sanitizer's
  while (at < count && library_of(frames[at]) == own) ++at;
  const std::byte* library = at < count ? library_of(frames[at]) : nullptr;
  for (; at < count && library_of(frames[at]) == library; ++at)
    site.callers.push_back(static_cast<std::byte*>(frames[at]) - library);
  const bool out = options_.without != nullptr && *options_.without == site;
  report_.sites.insert(std::move(site));
  return out;
}

bool Machine::in_use(int rank, Range range) const {
  const auto* begin = static_cast<const std::byte*>(range.memory);
  const auto overlaps = [&](const Range& other) {
    const auto* at = static_cast<const std::byte*>(other.memory);
    return at < begin + range.bytes && begin < at + other.bytes;
  };
  for (const Stream& stream : streams_) {
    if (stream.rank != rank) continue;
    for (const Operation& operation : stream.queue) {
      if (std::any_of(operation.reads.begin(), operation.reads.end(), overlaps) ||
          std::any_of(operation.writes.begin(), operation.writes.end(), overlaps))
        return true;
    }
  }
  return false;
}

bool Machine::idle(int rank) const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [rank](const Stream& stream) { return stream.rank != rank || stream.queue.empty(); });
}

void Machine::fault(const std::string& text) {
  constexpr std::size_t kMost = 20;
  if (report_.faults.size() < kMost) report_.faults.push_back(text);
}

Stream& Machine::stream(cudaStream_t handle) {
  if (handle == nullptr) {
    const int rank = host().rank;
    if (rank < 0) {
      fault("a thread that is no rank uses the default stream");
      return *defaults_.front();
    }
    return *defaults_[static_cast<std::size_t>(rank)];
  }
  auto& stream = *reinterpret_cast<Stream*>(handle);
  if (stream.destroyed) fault("a stream is used that has been destroyed");
  return stream;
}

Stream& Machine::new_stream() {
  constexpr double kPaces[] = {1, 1, 0.2, 0.02};
  streams_.push_back({.machine = this,
                      .rank = host().rank,
                      .timeline = books_.open(),
                      .clock = {},
                      .queue = {},
                      .pace = kPaces[random_() % 4]});
  return streams_.back();
}

Event& Machine::new_event() {
  return events_.emplace_back(Event{.machine = this, .rank = host().rank, .last = nullptr});
}

Clock Machine::issue() {
  Host& own = host();
  Clock now = own.clock;
  tick(own.clock, own.timeline);
  return now;
}

void Machine::push(Stream& stream, Operation operation) {
  operation.issued = issue();
  push_issued(stream, std::move(operation));
}

void Machine::push_issued(Stream& stream, Operation operation) {
  stream.queue.push_back(std::move(operation));
  changed();
}

void Machine::add_job(std::function<bool()> ready, std::function<void()> run) {
  jobs_.push_back({std::move(ready), std::move(run)});
  changed();
}

bool Machine::wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  changed_.wait(lock, [&] { return released_ || done(); });
  return !released_;
}

void Machine::work() {
  auto held = lock();
  while (!ending_) {
    if (released_ || !step()) {  // after a release the memory of those who gave up is gone
      changed_.wait(held);
      continue;
    }
    changed();
    if (idle_us_ > 0) {
      const auto pause = std::chrono::microseconds(static_cast<int>(chance() * idle_us_));
      held.unlock();
      std::this_thread::sleep_for(pause);
      held.lock();
    }
  }
}

bool Machine::step() {
  std::vector<double> weights;
  std::vector<std::function<void()>> choices;
  for (Stream& stream : streams_) {
    if (stream.queue.empty()) continue;
    Operation& head = stream.queue.front();
    if (head.awaits && !head.awaits->passed) continue;
    if (head.owner != nullptr && !takes_place(stream, head)) continue;
    if (head.ready && !head.ready()) continue;
    weights.push_back(stream.pace);
    choices.emplace_back([this, &stream] { run_head(stream); });
  }
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (!jobs_[i].ready()) continue;
    weights.push_back(0.3);
    choices.emplace_back([this, i] {
      const auto run = std::move(jobs_[i].run);
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(i));
      run();
    });
  }
  if (choices.empty()) return false;
  choices[std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(random_)]();
  return true;
}

bool Machine::takes_place(const Stream& stream, Operation& head) {
  int& running = running_[static_cast<std::size_t>(stream.rank)];
  if (head.has_place) return true;
  if (running == options_.places) return false;
  ++running;
  return head.has_place = true;
}

void Machine::run_head(Stream& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.has_place) --running_[static_cast<std::size_t>(stream.rank)];
  ++operations_;
  join(stream.clock, operation.issued);
  if (operation.awaits) join(stream.clock, operation.awaits->clock);
  tick(stream.clock, stream.timeline);
  const auto check = [&](const std::string& text) {
    if (!text.empty()) fault(str("rank ", stream.rank, ": ", text));
  };
  for (const Range& range : operation.reads)
    check(books_.reads(stream.timeline, stream.clock, range, operation.name));
  for (const Range& range : operation.writes) {
    check(operation.frees ? books_.frees(stream.timeline, stream.clock, range, operation.name)
                          : books_.writes(stream.timeline, stream.clock, range, operation.name));
  }
  const bool valid = inside(operation.reads, *operation.name) && inside(operation.writes, *operation.name);
  if (operation.run && valid) operation.run();
  if (operation.record) {
    operation.record->clock = stream.clock;
    operation.record->passed = true;
    operation.record->at = operations_;
  }
}

}  // namespace echelon::stand_in
