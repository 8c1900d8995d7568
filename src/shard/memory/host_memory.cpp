#include "shard/memory/host_memory.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdlib>

#include "shard/memory/host_arena.h"

namespace echelon {
namespace {

/// Blocks of at least this size come from the arena.
constexpr std::size_t kLarge = 32 * 1024;
/// As in libtorch's own CPU allocator. A small block is preceded by that many bytes, which store its size.
constexpr std::size_t kAlignment = 64;

class Allocator final : public at::Allocator {
 public:
  /// Never destroyed: tensors may outlive main().
  static Allocator& instance() {
    static Allocator& only = *new Allocator;
    return only;
  }

  at::DataPtr allocate(std::size_t bytes) override {
    void* block = nullptr;
    if (bytes > 0) block = bytes < kLarge ? take_small(bytes) : arena.take(bytes);
    if (block == nullptr && bytes > 0) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "out of host memory: requested ", bytes, " bytes with ",
                       live.load(), " in use");
    }
    raise(peak, live += static_cast<std::int64_t>(bytes));
    return {block, block, release, at::Device(at::kCPU)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  HostArena arena;
  std::atomic<std::int64_t> live{0};
  std::atomic<std::int64_t> peak{0};
  std::atomic<std::int64_t> small{0};
  std::atomic<std::int64_t> small_peak{0};

 private:
  static void release(void* block) {
    if (block != nullptr) instance().give(block);
  }

  void* take_small(std::size_t bytes) {
    const std::size_t whole = kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (memory == nullptr) return nullptr;
    *reinterpret_cast<std::size_t*>(memory) = bytes;
    raise(small_peak, small += static_cast<std::int64_t>(whole));
    return memory + kAlignment;
  }

  void give(void* block) {
    std::size_t bytes = arena.give(block);
    if (bytes == 0) {
      auto* const memory = static_cast<std::byte*>(block) - kAlignment;
      bytes = *reinterpret_cast<std::size_t*>(memory);
      small -= static_cast<std::int64_t>(kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment);
      std::free(memory);
    }
    live -= static_cast<std::int64_t>(bytes);
  }

  static void raise(std::atomic<std::int64_t>& maximum, std::int64_t value) {
    std::int64_t seen = maximum;
    while (value > seen && !maximum.compare_exchange_weak(seen, value)) {
    }
  }
};

}  // namespace

void HostMemory::install() {
  c10::SetCPUAllocator(&Allocator::instance(), 0);
}

at::Tensor HostMemory::zeros(std::int64_t numel, const at::TensorOptions& options) {
  at::Tensor made = at::empty({numel}, options);
  if (!made.is_cpu() || !Allocator::instance().arena.is_fresh(made.const_data_ptr())) made.zero_();
  return made;
}

std::int64_t HostMemory::live_bytes() {
  return Allocator::instance().live;
}

std::int64_t HostMemory::peak_bytes() {
  return Allocator::instance().peak;
}

std::int64_t HostMemory::reserved_bytes() {
  const Allocator& all = Allocator::instance();
  return static_cast<std::int64_t>(all.arena.reserved_bytes()) + all.small_peak;
}

void HostMemory::trim() {
  Allocator& all = Allocator::instance();
  all.arena.trim();
  all.small_peak = all.small.load();
}

void HostMemory::reset_peak() {
  Allocator& all = Allocator::instance();
  all.peak = all.live.load();
}

}  // namespace echelon
