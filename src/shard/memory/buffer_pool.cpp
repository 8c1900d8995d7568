#include "shard/memory/buffer_pool.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>

namespace echelon {
namespace {

/// Rounds sizes that differ by a few percent to the same class, so an output head, larger than the embedding
/// by its norm, can reuse its buffer.
std::int64_t size_class(std::int64_t bytes) {
  const auto step = static_cast<std::int64_t>(
      std::max<std::uint64_t>(1, std::bit_floor(static_cast<std::uint64_t>(bytes)) / 16));
  return (bytes + step - 1) / step * step;
}

/// A tensor over `storage`, which may be empty now. libtorch's checked functions (set_, as_strided) refuse a
/// storage that is too small.
at::Tensor over(const c10::Storage& storage, const at::Tensor& like, std::int64_t offset,
                at::IntArrayRef shape) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(storage),
                                                               like.key_set(), like.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  return tensor;
}

}  // namespace

at::DataPtr BufferPool::take(std::int64_t bytes, Use use) {
  Bytes& counted = bytes_[static_cast<std::size_t>(use)];
  counted.live += bytes;
  counted.peak = std::max(counted.peak, counted.live);
  bytes = size_class(bytes);
  const auto found = free_.lower_bound(bytes);
  if (found != free_.end() && found->first <= 2 * bytes) {
    at::DataPtr buffer = std::move(found->second);
    free_.erase(found);
    return buffer;
  }
  at::DataPtr buffer = c10::GetAllocator(device_.type())->allocate(static_cast<std::size_t>(bytes));
  capacity_[buffer.get()] = bytes;
  allocated_ += bytes;
  return buffer;
}

void BufferPool::give(at::DataPtr buffer, std::int64_t bytes, Use use) {
  bytes_[static_cast<std::size_t>(use)].live -= bytes;
  const auto found = capacity_.find(buffer.get());
  free_.emplace(found == capacity_.end() ? bytes : found->second, std::move(buffer));
}

ElasticTensor::ElasticTensor(BufferPool& pool, std::int64_t numel, at::ScalarType type, Use use)
    : pool_(&pool),
      bytes_(numel * static_cast<std::int64_t>(c10::elementSize(type))),
      use_(use),
      inflated_(false) {
  const at::Device device = pool.device();
  const c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                                   at::DataPtr(nullptr, device),
                                                                   c10::GetAllocator(device.type()), false));
  tensor_ = over(storage, at::empty({0}, at::TensorOptions().dtype(type).device(device)), 0, {numel});
}

ElasticTensor::ElasticTensor(const at::Tensor& fixed)
    : pool_(nullptr), bytes_(static_cast<std::int64_t>(fixed.nbytes())), tensor_(fixed), inflated_(true) {}

ElasticTensor::~ElasticTensor() {
  deflate();
}

void ElasticTensor::inflate() {
  if (inflated_) return;
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(pool_->take(bytes_, use_));
  storage->set_nbytes(static_cast<std::size_t>(bytes_));
  inflated_ = true;
}

void ElasticTensor::deflate() {
  if (!inflated_ || pool_ == nullptr) return;
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  pool_->give(storage->set_data_ptr(at::DataPtr(nullptr, tensor_.device())), bytes_, use_);
  storage->set_nbytes(0);
  inflated_ = false;
}

at::Tensor ElasticTensor::view(std::int64_t offset, const std::vector<std::int64_t>& shape) const {
  return over(tensor_.storage(), tensor_, tensor_.storage_offset() + offset, shape);
}

}  // namespace echelon
