#include "train/device_reader.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>

namespace echelon {

void ReadWindows::read(const at::Tensor& tensor, std::uint64_t at, std::span<std::byte> to) {
  const at::Tensor bytes = tensor.reshape({-1}).view(at::kByte);
  while (!to.empty()) {
    const auto from = static_cast<std::int64_t>(at);
    const std::int64_t piece = from / bytes_;
    begin(bytes, piece);
    // The device copies the next piece while this one is used.
    begin(bytes, piece + 1);
    const Window& window = window_of(piece);
    if (window.filled) window.filled->synchronize();
    const std::size_t count = std::min(to.size(), static_cast<std::size_t>((piece + 1) * bytes_ - from));
    std::memcpy(to.data(),
                static_cast<const std::byte*>(window.host.const_data_ptr()) + (from - piece * bytes_), count);
    at += count;
    to = to.subspan(count);
  }
}

void ReadWindows::begin(const at::Tensor& source, std::int64_t piece) {
  const std::int64_t first = piece * bytes_;
  const std::int64_t count = std::min(bytes_, source.numel() - first);
  Window& window = window_of(piece);
  const bool held = window.piece == piece && window.source.defined() &&
                    window.source.const_data_ptr() == source.const_data_ptr();
  if (count <= 0 || held) return;
  const bool device = !source.is_cpu();
  if (!window.host.defined())
    window.host = at::empty({bytes_}, at::TensorOptions(at::kByte).pinned_memory(device));
  window.source.reset();  // so a copy that throws leaves the window marked as empty
  window.host.narrow(0, 0, count).copy_(source.narrow(0, first, count), /*non_blocking=*/true);
  if (device) {
    if (!window.filled) window.filled.emplace(source.device().type());
    window.filled->record(c10::impl::VirtualGuardImpl(source.device().type()).getStream(source.device()));
  }
  window.source = source;
  window.piece = piece;
}

}  // namespace echelon
