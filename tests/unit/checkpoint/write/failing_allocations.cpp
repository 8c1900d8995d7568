#include "unit/checkpoint/write/failing_allocations.h"

#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

namespace {

/// Makes the private member function known: an explicit instantiation may name it.
template <auto kMember>
struct Reveal {
  friend auto json_destruction() { return kMember; }
};
auto json_destruction();
template struct Reveal<&nlohmann::json::json_value::destroy>;

/// The JSON library's destructor takes memory for a list of what it has yet to destroy and has no way to tell
/// that there is none: that ends the process, whoever uses the library. Nothing here can be tried on it.
bool destroys_json() {
  static const void* const destruction = [] {
    const auto member = json_destruction();
    const void* address = nullptr;
    std::memcpy(&address, &member, sizeof(address));  // how the C++ ABI keeps a function that is not virtual
    return address;
  }();
  bool found = false;
  const auto look = [](_Unwind_Context* frame, void* result) {
    // One back: the call may be its function's last instruction.
    auto* caller = reinterpret_cast<void*>(_Unwind_GetIP(frame) - 1);
    if (_Unwind_FindEnclosingFunction(caller) != destruction) return _URC_NO_REASON;
    *static_cast<bool*>(result) = true;
    return _URC_END_OF_STACK;
  };
  (void)_Unwind_Backtrace(look, &found);
  return found;
}

std::atomic<bool> armed{false};
std::atomic<std::int64_t> met{0};
std::atomic<std::int64_t> first{0};
std::atomic<std::int64_t> behind_last{0};
thread_local int spared = 0;

bool refused() {
  if (!armed || spared > 0) return false;
  const std::int64_t number = ++met;
  return number >= first && number < behind_last && !destroys_json();
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (refused()) throw std::bad_alloc();
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* memory =
      alignment > alignof(std::max_align_t) ? std::aligned_alloc(alignment, rounded) : std::malloc(rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All forms: those that are left to a library are made of these by libstdc++, but not by a sanitizer.
void* operator new(std::size_t size) {
  return allocate(size, 1);
}
void* operator new[](std::size_t size) {
  return allocate(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return refused() ? nullptr : std::malloc(std::max<std::size_t>(size, 1));
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return refused() ? nullptr : std::malloc(std::max<std::size_t>(size, 1));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

#if defined(__SANITIZE_ADDRESS__)
// A JSON value whose construction gets no memory midway forgets what it has, whoever uses the library.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: the sanitizer's name
extern "C" const char* __lsan_default_suppressions() {
  return "leak:nlohmann::";
}
#endif

namespace echelon::test {

FailingAllocations::FailingAllocations(std::int64_t nth, std::int64_t times) {
  met = 0;
  first = nth;
  behind_last = nth + times;
  armed = true;
}
FailingAllocations::~FailingAllocations() {
  armed = false;
}
bool FailingAllocations::struck() const {
  return met >= first;
}

SparedAllocations::SparedAllocations() {
  ++spared;
}
SparedAllocations::~SparedAllocations() {
  --spared;
}

}  // namespace echelon::test
