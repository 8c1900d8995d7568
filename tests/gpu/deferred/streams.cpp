#include "gpu/deferred/streams.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "base/str.h"

namespace echelon::test::deferred {
namespace {

void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < kStreams; ++i) clock[i] = std::max(clock[i], other[i]);
}

const std::byte* begin_of(const Access& access) {
  return static_cast<const std::byte*>(access.begin);
}
const std::byte* end_of(const Access& access) {
  return begin_of(access) + access.bytes;
}
bool overlap(const Access& a, const Access& b) {
  return begin_of(a) < end_of(b) && begin_of(b) < end_of(a);
}
bool covers(const Access& a, const Access& b) {
  return begin_of(a) <= begin_of(b) && end_of(b) <= end_of(a);
}

/// Of the function that a call returns to, if it is this program's; empty: nothing is known.
std::string function_at(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr) return "";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free);
  const std::string found = status == 0 ? name.get() : "";
  return found.starts_with("echelon::") ? found : "";
}

}  // namespace

Streams& Streams::instance() {
  static auto* only = new Streams;  // streams outlive main()
  return *only;
}

bool Streams::leaves_out(const std::string& what) {
  constexpr int kFrames = 12;
  std::array<void*, kFrames> frames{};
  const int count = ::backtrace(frames.data(), kFrames);
  for (int i = 0; i < count; ++i) {
    const std::string function = function_at(frames[static_cast<std::size_t>(i)]);
    if (function.empty() || function.starts_with("echelon::test::") ||
        function.starts_with("echelon::CopyStream::"))
      continue;
    const std::string place = str(what, " in ", function);
    if (std::find(seen.places.begin(), seen.places.end(), place) == seen.places.end())
      seen.places.push_back(place);
    return place == left_out_;
  }
  return false;
}

void Streams::restart(std::string left_out) {
  run_all();
  seen = {};
  host_waits = 0;
  left_out_ = std::move(left_out);
  for (Stream& stream : streams_) stream.clock = {};
  host_ = {};
  past_.clear();
  count_ = 1;
}

void Streams::judge(const Clock& clock, const std::string& what, const Access& access) {
  for (const Past& past : past_) {
    const bool matters = (past.access.writes || access.writes) && overlap(past.access, access);
    if (!matters || clock[past.stream] >= past.number) continue;
    std::string finding =
        str(what, access.writes ? " writes" : " reads", " what ", past.what, " of stream ", past.stream,
            past.access.writes ? " writes" : " reads", ", without waiting for it");
    if (std::find(seen.findings.begin(), seen.findings.end(), finding) == seen.findings.end())
      seen.findings.push_back(std::move(finding));
  }
}

void Streams::forget(const Access& access) {
  std::erase_if(past_, [&](const Past& past) { return covers(access, past.access); });
}

void Streams::give(std::size_t stream, const std::string& what, const std::vector<Access>& accesses,
                   std::function<void()> body) {
  Stream& its = streams_.at(stream);
  join(its.clock, host_);
  for (const Access& access : accesses) judge(its.clock, what, access);
  const std::uint64_t number = ++its.clock[stream];
  for (const Access& access : accesses) {
    if (access.writes) forget(access);
  }
  for (const Access& access : accesses) past_.push_back({access, stream, number, what});
  its.waiting.push_back({number, std::move(body)});
}

void Streams::run(std::size_t stream, std::uint64_t until) {
  auto& waiting = streams_.at(stream).waiting;
  while (!waiting.empty() && waiting.front().number <= until) {
    const Operation operation = std::move(waiting.front());
    waiting.pop_front();
    operation.body();
  }
}

void Streams::run_all() {
  for (std::size_t i = 0; i < count_; ++i) run(i);
}

Streams::Event Streams::record(std::size_t stream) {
  Stream& its = streams_.at(stream);
  join(its.clock, host_);
  return {stream, its.clock[stream], its.clock};
}

void Streams::block(std::size_t stream, const Event& event) {
  give(stream, "a wait", {}, [this, event] { run(event.stream, event.number); });
  join(streams_.at(stream).clock, event.clock);
}

void Streams::hold_host(const Event& event) {
  run(event.stream, event.number);
  join(host_, event.clock);
}

void Streams::allocated(const void* begin, std::size_t bytes, std::size_t stream) {
  blocks_[begin] = {bytes, stream, {}};
  // What PyTorch's allocator gives was somebody's before, who may not be done with it in this stream.
  give(stream, "who had the memory before", {{begin, bytes, true}}, [] {});
}

void Streams::used_by(const void* begin, std::size_t stream) {
  const auto found = blocks_.find(begin);
  if (found == blocks_.end()) throw std::logic_error("memory of nobody's is marked as used");
  found->second.users.push_back(stream);
}

void Streams::freed(const void* begin) {
  const auto found = blocks_.find(begin);
  const Block& block = found->second;
  // As PyTorch's allocator: used again in the order of its own stream, and after what its users have now.
  Clock clock = record(block.stream).clock;
  for (const std::size_t user : block.users) join(clock, record(user).clock);
  const Access whole{begin, block.bytes, true};
  judge(clock, "who gets freed memory", whole);
  run_all();
  forget(whole);
  blocks_.erase(found);
}

}  // namespace echelon::test::deferred
