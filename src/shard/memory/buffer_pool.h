#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace echelon {

/// What a buffer of the pool is for; bytes are counted by it.
enum class Use : std::uint8_t {
  kGathered,   ///< whole weights of a unit
  kGradients,  ///< whole gradients of a unit
  kStaging,    ///< on their way: casts, copies to and from the host, parts kept for backward
};

/// Memory for gathered weights and for gradients on their way out: a few buffers, handed from unit to unit
/// instead of going back to the allocator each time. On a GPU, reuse follows stream order because a
/// communicator's streams wait for the issuing stream. Not thread-safe; outlives every buffer it lent.
class BufferPool {
 public:
  struct Bytes {
    std::int64_t live = 0;
    std::int64_t peak = 0;
  };

  /// Who is told of every buffer that comes from the allocator, and of the same before it goes back: where
  /// collectives want to know their memory beforehand.
  struct Watcher {
    std::function<void(void* buffer, std::size_t bytes)> came;
    std::function<void(void* buffer)> goes;  ///< does not throw
  };
  explicit BufferPool(at::Device device, Watcher watcher = {})
      : device_(device), watcher_(std::move(watcher)) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// At least `bytes`, rounded up by at most a sixteenth: the smallest free one that fits and wastes at most
  /// half, else a new one.
  [[nodiscard]] at::DataPtr take(std::int64_t bytes, Use use);
  void give(at::DataPtr buffer, std::int64_t bytes, Use use);

  [[nodiscard]] at::Device device() const { return device_; }
  /// Lent now, and at most, for `use`.
  [[nodiscard]] Bytes bytes(Use use) const { return bytes_[static_cast<std::size_t>(use)]; }
  /// Taken from the allocator, lent or not.
  [[nodiscard]] std::int64_t bytes_allocated() const { return allocated_; }

 private:
  at::Device device_;
  Watcher watcher_;
  std::multimap<std::int64_t, at::DataPtr> free_;
  std::map<void*, std::int64_t> capacity_;
  std::array<Bytes, 3> bytes_{};
  std::int64_t allocated_ = 0;
};

/// A 1-D tensor whose storage comes and goes while it and every view of it stay valid objects: autograd's
/// saved views need no care when the bytes are freed after forward and brought back for backward.
class ElasticTensor {
 public:
  /// Deflated: takes no memory.
  ElasticTensor(BufferPool& pool, std::int64_t numel, at::ScalarType type, Use use);
  /// Always inflated: the memory of `fixed` (1-D, contiguous).
  explicit ElasticTensor(const at::Tensor& fixed);
  ~ElasticTensor();
  ElasticTensor(const ElasticTensor&) = delete;
  ElasticTensor& operator=(const ElasticTensor&) = delete;

  void inflate();  ///< contents undefined; no-op when inflated
  void deflate();  ///< bytes back to the pool; no-op when deflated or fixed
  [[nodiscard]] bool inflated() const { return inflated_; }
  [[nodiscard]] bool fixed() const { return pool_ == nullptr; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] void* data() const { return tensor_.mutable_data_ptr(); }
  [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }

  /// Valid as an object for ever, readable and writable whenever inflated.
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const;

 private:
  BufferPool* pool_;
  std::int64_t bytes_;
  Use use_ = Use::kStaging;
  at::Tensor tensor_;
  bool inflated_;
};

}  // namespace echelon
