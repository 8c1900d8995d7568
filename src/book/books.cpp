#include "book/books.h"

#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/str.h"

namespace echelon::book {
namespace {

using forecast::Event;

constexpr std::size_t kMostNames = std::numeric_limits<std::uint16_t>::max();

std::string_view word(Doing doing) {
  switch (doing) {
    case Doing::kReadingData: return "batch";
    case Doing::kForward: return "forward";
    case Doing::kBackward: return "backward";
    case Doing::kUpdating: return "update";
    case Doing::kValidating: return "validation";
    default: return "other";
  }
}

std::uint16_t index_of(std::string_view text, std::map<std::string, std::uint16_t, std::less<>>& known,
                       std::vector<std::string>& all) {
  if (const auto found = known.find(text); found != known.end()) return found->second;
  if (all.size() >= kMostNames) throw Error::internal("more than 65535 kinds of operations in one step");
  const auto index = static_cast<std::uint16_t>(all.size());
  all.emplace_back(text);
  known.emplace(text, index);
  return index;
}

}  // namespace

Books::Circumstances& Books::here() {
  thread_local Circumstances mine;
  return mine;
}

void Books::begin_tasks(std::int64_t tasks) {
  here().tasks = tasks;
  first_of_tasks_ = trace_.works.size();
}

void Books::end_tasks() {
  here().tasks = 0;
  if (first_of_tasks_ < trace_.works.size())
    trace_.works[first_of_tasks_].again_after = trace_.works.back().name;
}

/// Returns the name of the work that this thread's next one follows.
std::uint16_t Books::follow(std::uint16_t name, bool divided) {
  thread_local Latest mine;
  const std::uint16_t previous = mine.number > whole_.number ? mine.name : whole_.name;
  mine = {++works_, name};
  if (!divided) whole_ = mine;
  return previous;
}

Books& books() {
  static Books only;
  return only;
}

void Books::restart() {
  open_ = false;
  groups_.clear();
}

void Books::begin(std::shared_ptr<Activity> activity, std::function<std::int64_t()> peak_bytes) {
  trace_ = {};
  names_.clear();
  places_.clear();
  activity_ = std::move(activity);
  peak_bytes_ = std::move(peak_bytes);
  peak_ = 0;
  whole_ = {++works_, name_of("begin")};
  doing_ = Doing::kStarting;
  open_ = true;
}

forecast::Trace Books::end() {
  open_ = false;
  trace_.groups = groups_;
  return std::move(trace_);
}

std::uint16_t Books::name_of(std::string_view name) {
  return index_of(name, names_, trace_.names);
}

/// Micro-batches are told apart by what the engine says it is at.
void Books::look_where() {
  const Activity::Now now = activity_->now();
  const auto next = static_cast<std::uint32_t>(trace_.events.size());
  if (now.doing != doing_) {
    if (now.doing == Doing::kReadingData) trace_.passes.push_back(trace_.passes.empty() ? 0 : next);
    doing_ = now.doing;
  }
  const bool in_unit = now.doing == Doing::kForward || now.doing == Doing::kBackward;
  place_ = index_of(in_unit ? str(word(now.doing), " ", now.unit) : std::string(word(now.doing)), places_,
                    trace_.places);
}

void Books::add(Event event) {
  trace_.events.push_back(event);
  if (const std::int64_t most = peak_bytes_(); most > peak_) {
    peak_ = most;
    trace_.peak = static_cast<std::uint32_t>(trace_.events.size() - 1);
  }
}

void Books::work(std::string_view name, forecast::Cost cost, DType type, double flops, double bytes,
                 bool on_host, std::int64_t head_size) {
  const Lock lock(mutex_);
  if (!open_) return;
  look_where();
  const Circumstances& now = here();
  const auto times = static_cast<double>(std::max<std::int64_t>(1, now.tasks));
  const bool divided = c10::ParallelGuard::is_enabled();
  const std::uint16_t number_of_name = name_of(name);
  const std::uint16_t previous = follow(number_of_name, divided);
  trace_.works.push_back({.flops = flops * times,
                          .seconds = now.seconds,
                          .before_s = now.before_s,
                          .bytes = bytes * times,
                          .name = number_of_name,
                          .after = previous,
                          .again_after = previous,
                          .place = place_,
                          .head_size = static_cast<std::uint16_t>(head_size),
                          .stream = stream_,
                          .cost = cost,
                          .type = type,
                          .on_host = on_host,
                          .divided = divided,
                          .tasks = now.tasks});
  add({Event::Kind::kWork, stream_, static_cast<std::uint32_t>(trace_.works.size() - 1)});
}

std::uint32_t Books::issue(forecast::Message message, std::string_view label) {
  if (!open_) return kUnknown;
  look_where();
  message.stream = stream_;
  message.label = name_of(label);
  trace_.messages.push_back(message);
  const auto number = static_cast<std::uint32_t>(trace_.messages.size() - 1);
  add({Event::Kind::kIssue, stream_, number});
  return number;
}

void Books::wait(std::uint32_t message) {
  if (open_ && message < trace_.messages.size()) add({Event::Kind::kWait, stream_, message});
}

void Books::sync() {
  if (!open_) return;
  look_where();
  add({Event::Kind::kSync, stream_, 0});
}

std::uint32_t Books::mark(std::uint8_t stream) {
  if (!open_) return kUnknown;
  add({Event::Kind::kMark, stream, trace_.marks});
  return trace_.marks++;
}

void Books::hold(std::uint8_t stream, std::uint32_t mark) {
  if (open_ && mark < trace_.marks) add({Event::Kind::kHold, stream, mark});
}

void Books::hold_host(std::uint32_t mark) {
  if (open_ && mark < trace_.marks) add({Event::Kind::kHostHold, 0, mark});
}

std::uint16_t Books::add_group(forecast::Group group) {
  groups_.push_back(std::move(group));
  return static_cast<std::uint16_t>(groups_.size() - 1);
}

}  // namespace echelon::book
