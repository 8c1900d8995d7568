#pragma once
#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "checkpoint/hdf5/h5_layout.h"

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

/// Lays out a file in `memory`: attributes of the root group, and what `fill` makes in the file. Throws
/// Error(kCheckpoint), and std::bad_alloc.
void h5_make_file(H5Memory& memory, std::uint64_t user_block, std::span<const H5Attribute> root,
                  const std::function<void(hid_t file)>& fill);

}  // namespace echelon::checkpoint
