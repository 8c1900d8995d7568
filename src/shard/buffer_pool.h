#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

namespace echelon {

/// Memory for gathered weights and for gradients on their way out: a few buffers, handed from unit to unit
/// instead of going back to the allocator each time. On a GPU, reuse follows stream order because a
/// communicator's streams wait for the issuing stream. Not thread-safe; outlives every buffer it lent.
class BufferPool {
 public:
  explicit BufferPool(at::Device device) : device_(device) {}

  /// At least `bytes`, rounded up by at most a sixteenth: the smallest free one that fits and wastes at most
  /// half, else a new one.
  [[nodiscard]] at::DataPtr take(std::int64_t bytes);
  void give(at::DataPtr buffer, std::int64_t bytes);

  [[nodiscard]] std::int64_t bytes_allocated() const { return allocated_; }

 private:
  at::Device device_;
  std::multimap<std::int64_t, at::DataPtr> free_;
  std::map<void*, std::int64_t> capacity_;
  std::int64_t allocated_ = 0;
};

/// A 1-D tensor whose storage comes and goes while it and every view of it stay valid objects: autograd's
/// saved views need no care when the bytes are freed after forward and brought back for backward.
class ElasticTensor {
 public:
  /// Made inflated, so that views can be taken.
  ElasticTensor(BufferPool& pool, std::int64_t numel, at::ScalarType type, at::Device device);
  ~ElasticTensor();
  ElasticTensor(const ElasticTensor&) = delete;
  ElasticTensor& operator=(const ElasticTensor&) = delete;

  void inflate();  ///< contents undefined; no-op when inflated
  void deflate();  ///< bytes back to the pool; no-op when deflated
  [[nodiscard]] bool inflated() const { return inflated_; }
  [[nodiscard]] void* data() const { return tensor_.mutable_data_ptr(); }

  /// Taken while inflated (libtorch checks a new view against its storage); valid as an object for ever,
  /// readable and writable whenever inflated.
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const;

 private:
  BufferPool* pool_;
  std::int64_t bytes_;
  at::Tensor tensor_;
  bool inflated_ = true;
};

}  // namespace echelon
