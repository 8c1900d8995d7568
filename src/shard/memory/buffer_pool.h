#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/not_copied.h"

namespace echelon {

/// Purpose of a buffer; bytes are counted per purpose.
enum class Use : std::uint8_t {
  kGathered,   ///< whole weights of a unit
  kGradients,  ///< whole gradients of a unit
  kStaging,    ///< casts, copies to and from the host, parts kept for backward
};

/// Memory for gathered weights and whole gradients: a few buffers that units reuse instead of returning them
/// to the allocator. On a GPU, reuse is in stream order, because a communicator's streams wait for the
/// issuing stream. Not thread-safe. Must outlive every buffer it lent.
class BufferPool : NotCopied {
 public:
  /// Lent now, and the maximum since construction.
  struct Bytes {
    std::int64_t live = 0;
    std::int64_t peak = 0;
  };

  explicit BufferPool(at::Device device) : device_(device) {}

  /// Returns a buffer of at least `bytes`, contents undefined. `bytes` is first rounded up by at most 1/16.
  /// Lends the smallest free buffer that fits, unless it is more than twice as large; otherwise allocates
  /// one.
  [[nodiscard]] at::DataPtr take(std::int64_t bytes, Use use);
  /// Returns a buffer of take(); `bytes` and `use` as given there.
  void give(at::DataPtr buffer, std::int64_t bytes, Use use);

  [[nodiscard]] at::Device device() const { return device_; }
  /// Bytes lent for `use`, as requested.
  [[nodiscard]] Bytes bytes(Use use) const { return bytes_[static_cast<std::size_t>(use)]; }
  /// Bytes allocated for buffers, lent or free.
  [[nodiscard]] std::int64_t bytes_allocated() const { return allocated_; }

 private:
  at::Device device_;
  std::multimap<std::int64_t, at::DataPtr> free_;
  std::map<void*, std::int64_t> capacity_;
  std::array<Bytes, 3> bytes_{};
  std::int64_t allocated_ = 0;
};

/// A 1-D tensor whose memory can be freed and allocated again, while the tensor and all its views stay valid
/// objects. Tensors saved by autograd therefore need no special handling: after the next inflate() they refer
/// to the new memory.
class ElasticTensor : NotCopied {
 public:
  /// Starts deflated, without memory.
  ElasticTensor(BufferPool& pool, std::int64_t numel, at::ScalarType type, Use use);
  /// Always inflated; shares the memory of `fixed` (1-D, contiguous).
  explicit ElasticTensor(const at::Tensor& fixed);
  ~ElasticTensor();

  void inflate();  ///< contents are undefined; no-op if inflated
  void deflate();  ///< returns the memory to the pool; no-op if deflated or fixed
  [[nodiscard]] bool inflated() const { return inflated_; }
  [[nodiscard]] bool fixed() const { return pool_ == nullptr; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] void* data() const { return tensor_.mutable_data_ptr(); }
  [[nodiscard]] const at::Tensor& tensor() const { return tensor_; }

  /// Always a valid object; may be read and written while this one is inflated. `offset` in elements.
  [[nodiscard]] at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const;

 private:
  BufferPool* pool_;
  std::int64_t bytes_;
  Use use_ = Use::kStaging;
  at::Tensor tensor_;
  bool inflated_;
};

}  // namespace echelon
