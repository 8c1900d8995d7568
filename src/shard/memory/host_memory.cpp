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
    if (bytes > 0) block = bytes < kLarge ? take_small(bytes) : arena_.take(bytes);
    if (block == nullptr && bytes > 0) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "out of host memory: requested ", bytes, " bytes with ",
                       live_.load(), " in use");
    }
    raise(peak_, live_ += static_cast<std::int64_t>(bytes));
    return {block, block, release, at::Device(at::kCPU)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  [[nodiscard]] bool is_fresh(const void* block) const { return arena_.is_fresh(block); }
  [[nodiscard]] std::int64_t live() const { return live_; }
  [[nodiscard]] std::int64_t peak() const { return peak_; }
  [[nodiscard]] std::int64_t reserved() const {
    return static_cast<std::int64_t>(arena_.reserved_bytes()) + small_peak_;
  }
  void reset_peak() { peak_ = live_.load(); }
  void trim() {
    arena_.trim();
    small_peak_ = small_.load();
  }

 private:
  static void release(void* block) {
    if (block != nullptr) instance().give(block);
  }

  void* take_small(std::size_t bytes) {
    const std::size_t whole = kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (memory == nullptr) return nullptr;
    *reinterpret_cast<std::size_t*>(memory) = bytes;
    raise(small_peak_, small_ += static_cast<std::int64_t>(whole));
    return memory + kAlignment;
  }

  void give(void* block) {
    std::size_t bytes = arena_.give(block);
    if (bytes == 0) {
      auto* const memory = static_cast<std::byte*>(block) - kAlignment;
      bytes = *reinterpret_cast<std::size_t*>(memory);
      small_ -= static_cast<std::int64_t>(kAlignment + (bytes + kAlignment - 1) / kAlignment * kAlignment);
      std::free(memory);
    }
    live_ -= static_cast<std::int64_t>(bytes);
  }

  static void raise(std::atomic<std::int64_t>& maximum, std::int64_t value) {
    std::int64_t seen = maximum;
    while (value > seen && !maximum.compare_exchange_weak(seen, value)) {
    }
  }

  HostArena arena_;
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> small_{0};
  std::atomic<std::int64_t> small_peak_{0};
};

}  // namespace

void HostMemory::install() {
  c10::SetCPUAllocator(&Allocator::instance(), 0);
}

at::Tensor HostMemory::zeros(std::int64_t numel, const at::TensorOptions& options) {
  at::Tensor made = at::empty({numel}, options);
  if (!made.is_cpu() || !Allocator::instance().is_fresh(made.const_data_ptr())) made.zero_();
  return made;
}

std::int64_t HostMemory::live_bytes() {
  return Allocator::instance().live();
}

std::int64_t HostMemory::peak_bytes() {
  return Allocator::instance().peak();
}

std::int64_t HostMemory::reserved_bytes() {
  return Allocator::instance().reserved();
}

void HostMemory::trim() {
  Allocator::instance().trim();
}

void HostMemory::reset_peak() {
  Allocator::instance().reset_peak();
}

}  // namespace echelon
