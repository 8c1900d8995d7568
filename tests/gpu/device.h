#pragma once
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

/// Shared by the tests that need a GPU. Where there is none they skip and say so; CTest reports them SKIPPED.
namespace echelon::test {

/// 0 also without a driver.
inline int visible_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

#define ECHELON_NEEDS_GPU()                            \
  if (::echelon::test::visible_devices() == 0) {       \
    GTEST_SKIP() << "needs 1 CUDA devices, 0 visible"; \
  }                                                    \
  static_assert(true)

/// Values in device memory, `shift` elements past the beginning of an allocation: at no 16-byte border unless
/// 0.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values, std::size_t shift = 0) : count_(values.size()) {
    // No more than is asked for, so that an access past the end can be seen.
    EXPECT_EQ(cudaMalloc(&memory_, std::max<std::size_t>(count_ + shift, 1) * sizeof(T)), cudaSuccess);
    values_ = static_cast<T*>(memory_) + shift;
    EXPECT_EQ(cudaMemcpy(values_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(memory_); }
  [[nodiscard]] T* data() const { return values_; }
  /// After what the default stream has queued or waits for, not after other streams.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), values_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
  T* values_ = nullptr;
};

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace echelon::test
