#include "shard/memory/cast.h"

#include <ATen/ATen.h>

#include "model/kernels/kernels.h"
#include "model/ops/device_kernels.h"
#include "model/ops/upload.h"

namespace echelon {
namespace {

template <class T>
void round_to(const at::Tensor& from, const at::Tensor& to) {
  kernels::kernels<T>().from_float(from.const_data_ptr<float>(), static_cast<T*>(to.mutable_data_ptr()),
                                   from.numel());
}

}  // namespace

void cast_into(const at::Tensor& slice, const at::Tensor& slot) {
  const auto* device = slice.device() == slot.device() ? ops::device_kernels(slice) : nullptr;
  const bool ours = slice.is_cpu() && slot.is_cpu() && slice.scalar_type() == at::kFloat;
  if (device != nullptr && slice.scalar_type() == at::kFloat) {
    device->cast(slice, slot);
  } else if (ours && slot.scalar_type() == at::kBFloat16) {
    round_to<kernels::Bf16>(slice, slot);
  } else if (ours && slot.scalar_type() == at::kHalf) {
    round_to<kernels::Fp16>(slice, slot);
  } else if (slice.device() != slot.device() && slice.scalar_type() != slot.scalar_type()) {
    // Cast before the transfer; compute types are at most as wide as master weights, so fewer bytes cross the
    // bus.
    const at::Tensor sent = page_locked(slice.sizes(), slot.scalar_type());
    cast_into(slice, sent);
    slot.copy_(sent, true);
  } else if (slice.device() != slot.device()) {
    slot.copy_(slice, true);
  } else {
    slot.copy_(slice);
  }
}

}  // namespace echelon
