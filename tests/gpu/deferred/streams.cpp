#include "gpu/deferred/streams.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "base/str.h"

namespace echelon::test::deferred {
namespace {

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
  books_ = {};
  host_ = {};
  for (Stream& stream : streams_) stream.clock.assign(static_cast<std::size_t>(books_.open()) + 1, 0);
}

std::size_t Streams::add() {
  const int number = books_.open();
  streams_.emplace_back().clock.resize(static_cast<std::size_t>(number) + 1);
  return static_cast<std::size_t>(number);
}

void Streams::note(const std::string& finding) {
  if (!finding.empty() &&
      std::find(seen.findings.begin(), seen.findings.end(), finding) == seen.findings.end())
    seen.findings.push_back(finding);
}

void Streams::give(std::size_t stream, const std::string& what, const std::vector<Access>& accesses,
                   std::function<void()> body) {
  Stream& its = streams_.at(stream);
  stand_in::join(its.clock, host_);
  const std::uint64_t number = ++its.clock[stream];
  const auto name = std::make_shared<const std::string>(what);
  for (const Access& access : accesses) {
    const stand_in::Range range{access.begin, access.bytes};
    const int timeline = static_cast<int>(stream);
    note(access.writes ? books_.writes(timeline, its.clock, range, name)
                       : books_.reads(timeline, its.clock, range, name));
  }
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
  for (std::size_t i = 0; i < streams_.size(); ++i) run(i);
}

Streams::Event Streams::record(std::size_t stream) {
  Stream& its = streams_.at(stream);
  stand_in::join(its.clock, host_);
  return {stream, its.clock[stream], its.clock};
}

void Streams::block(std::size_t stream, const Event& event) {
  give(stream, "a wait", {}, [this, event] { run(event.stream, event.number); });
  stand_in::join(streams_.at(stream).clock, event.clock);
}

void Streams::hold_host(const Event& event) {
  run(event.stream, event.number);
  stand_in::join(host_, event.clock);
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
  stand_in::Clock clock = record(block.stream).clock;
  for (const std::size_t user : block.users) stand_in::join(clock, record(user).clock);
  const stand_in::Range whole{begin, block.bytes};
  const auto name = std::make_shared<const std::string>("who gets freed memory");
  note(books_.writes(static_cast<int>(block.stream), clock, whole, name));
  run_all();
  books_.fresh(whole);
  blocks_.erase(found);
}

}  // namespace echelon::test::deferred
