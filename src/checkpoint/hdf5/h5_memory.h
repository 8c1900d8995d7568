#pragma once
#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace echelon::checkpoint {

/// The in-memory file that libhdf5 lays out: metadata is kept, raw data gets an address but no bytes.
/// Addresses count from the start of the file, user block included. Metadata grows from its front, raw data
/// from `data_begin` on, every piece on a 4 KiB border.
struct H5Memory {
  std::uint64_t data_begin = 0;  ///< first address for raw data; metadata must stay below
  /// For files without tensors: raw data is kept like metadata. libhdf5 allocates the heap of virtual data
  /// sets as raw data.
  bool keeps_all = false;
  std::uint64_t metadata_end = 0;   ///< grows
  std::uint64_t data_end = 0;       ///< grows
  std::vector<std::byte> metadata;  ///< bytes [0, metadata_end) as written so far
  bool out_of_memory = false;       ///< a write was lost: the file is unusable
};

/// Makes `access` (a file-access property list) use `memory`, which must outlive the file. False on failure.
[[nodiscard]] bool use_memory(hid_t access, H5Memory* memory);

}  // namespace echelon::checkpoint
