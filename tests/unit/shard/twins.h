#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "unit/shard/silent_communicator.h"

namespace echelon::test {

/// Rank 0 of several that all hold the same bytes, so that this one knows what the others send. What an
/// operation makes is there when it has been waited for, and not before. fp32 only.
class Twins final : public SilentCommunicator {
 public:
  /// Groups that are split off have `split_size` ranks.
  explicit Twins(int size, int split_size = 1) : SilentCommunicator(0, size), split_size_(split_size) {}

  Pending all_gather(void* buffer, std::size_t count, DType, std::string_view) override {
    return later([this, mine = static_cast<float*>(buffer), count] {
      for (int rank = 1; rank < size(); ++rank)
        std::memcpy(mine + static_cast<std::size_t>(rank) * count, mine, count * sizeof(float));
    });
  }
  Pending reduce_scatter(void* input, DType, float* output, std::size_t count, float scale, bool accumulate,
                         std::string_view) override {
    return later([this, in = static_cast<const float*>(input), output, count, scale, accumulate] {
      for (std::size_t i = 0; i < count; ++i)
        output[i] = (accumulate ? output[i] : 0.0F) + scale * static_cast<float>(size()) * in[i];
    });
  }
  std::unique_ptr<Communicator> split(const ColorOf&) override {
    return std::make_unique<Twins>(split_size_);
  }

 private:
  class Later final : public Pending::State {
   public:
    explicit Later(std::function<void()> work) : work_(std::move(work)) {}
    void wait() override { work_(); }

   private:
    std::function<void()> work_;
  };
  static Pending later(std::function<void()> work) {
    return Pending(std::make_shared<Later>(std::move(work)));
  }
  int split_size_;
};

}  // namespace echelon::test
