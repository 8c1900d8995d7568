#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "comm/communicator.h"

namespace echelon {

/// The copies of bytes from a device to the host and back. All four must be given.
struct DeviceCopies {
  /// Memory that the device copies from and to at full speed (page-locked).
  std::function<std::byte*(std::size_t bytes)> allocate_host;
  std::function<void(std::byte*)> free_host;
  /// Reads what the calling thread's current stream has written so far; returns with the bytes on the host.
  std::function<void(std::byte* host, const void* device, std::size_t bytes)> to_host;
  /// Copies in the order of the calling thread's current stream. Returns when `host` may change.
  std::function<void(void* device, const std::byte* host, std::size_t bytes)> to_device;
};

/// Collectives of buffers on devices by way of the host: each buffer is copied to host memory when an
/// operation is issued, `host` does the work, and Pending::wait() copies the result to the device. For ranks
/// that NCCL refuses because they share a GPU; sums have the order and bits of the CPU ranks. An operation
/// that touches what an unfinished one is going to write, in this communicator or any split from it, waits
/// for that one at issue. Issued and waited for by one thread at a time. gather_blobs() and barrier() are
/// those of `host`.
[[nodiscard]] std::unique_ptr<Communicator> make_host_staged_communicator(std::unique_ptr<Communicator> host,
                                                                          DeviceCopies copies);

}  // namespace echelon
