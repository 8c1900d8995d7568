#include "app/engine/plan/one_for_all.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <unordered_map>

#include "shard/memory/host_memory.h"

namespace echelon::app {
namespace {

/// Passes all on to the allocator of runs, and counts what lies in parallel regions.
class CountingAllocator final : public at::Allocator {
 public:
  /// Never destroyed: tensors may outlive a rehearsal.
  static CountingAllocator& instance() {
    static CountingAllocator& only = *new CountingAllocator;
    return only;
  }

  void install(int threads) {
    threads_ = threads;
    below_ = c10::GetCPUAllocator();
    c10::SetCPUAllocator(this, 0);
    reset_peak();
  }
  void remove() const { c10::SetCPUAllocator(below_, 0); }

  at::DataPtr allocate(std::size_t bytes) override {
    void* const block = below_->allocate(bytes).release_context();
    if (block != nullptr && c10::ParallelGuard::is_enabled()) {
      scratch_.emplace(block, bytes);
      scratch_bytes_ += static_cast<std::int64_t>(bytes);
    }
    peak_ = std::max(peak_, counted());
    return {block, block, release, at::Device(at::kCPU)};
  }
  [[nodiscard]] at::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  [[nodiscard]] std::int64_t peak() const { return peak_; }
  void reset_peak() { peak_ = counted(); }

 private:
  static void release(void* block) {
    CountingAllocator& self = instance();
    if (const auto found = self.scratch_.find(block); found != self.scratch_.end()) {
      self.scratch_bytes_ -= static_cast<std::int64_t>(found->second);
      self.scratch_.erase(found);
    }
    self.below_->raw_deleter()(block);
  }

  /// Bytes of living tensors, as if all threads computed.
  [[nodiscard]] std::int64_t counted() const {
    return HostMemory::live_bytes() + (threads_ - 1) * scratch_bytes_;
  }

  at::Allocator* below_ = nullptr;
  int threads_ = 1;
  std::unordered_map<void*, std::size_t> scratch_;  ///< living blocks of parallel regions, with their bytes
  std::int64_t scratch_bytes_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace

OneForAll::OneForAll(int threads) {
  CountingAllocator::instance().install(threads);
}

OneForAll::~OneForAll() {
  CountingAllocator::instance().remove();
}

std::int64_t OneForAll::peak_bytes() {
  return CountingAllocator::instance().peak();
}

void OneForAll::reset_peak() {
  CountingAllocator::instance().reset_peak();
}

}  // namespace echelon::app
