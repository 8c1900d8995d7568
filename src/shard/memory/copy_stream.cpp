#include "shard/memory/copy_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace echelon {
namespace {

c10::impl::VirtualGuardImpl backend(at::Device device) {
  return {device.type()};
}

}  // namespace

void CopyStream::Mark::hold_stream() const {
  if (event_ != nullptr) event_->block(backend(event_->device()).getStream(event_->device()));
}

void CopyStream::Mark::hold_host() const {
  if (event_ != nullptr) event_->synchronize();
}

CopyStream::Turn::Turn(CopyStream& copies) {
  if (copies.device_.is_cpu()) return;
  const c10::Stream mine = copies.stream();
  c10::Event before(copies.device_.type());
  before.record(backend(copies.device_).getStream(mine.device()));
  before.block(mine);
  guard_.emplace(mine);
}

void CopyStream::Turn::uses(const at::Tensor& tensor) const {
  if (!guard_) return;
  backend(tensor.device()).recordDataPtrOnStream(tensor.storage().data_ptr(), guard_->current_stream());
}

CopyStream::Mark CopyStream::Turn::mark() const {
  Mark reached;
  if (!guard_) return reached;
  reached.event_ = std::make_shared<c10::Event>(guard_->current_device().type());
  reached.event_->record(guard_->current_stream());
  return reached;
}

c10::Stream CopyStream::stream() {
  if (!stream_) stream_ = backend(device_).getStreamFromGlobalPool(device_);
  return *stream_;
}

}  // namespace echelon
