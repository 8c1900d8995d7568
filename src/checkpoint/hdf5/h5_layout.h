#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

/// libhdf5 is used only here and in the h5_ files. It lays a file out in memory and never touches a disk,
/// because it hides write errors (a full disk at close) and never flushes.
namespace echelon::checkpoint {

struct H5Attribute {
  std::string name;
  std::vector<std::int64_t> values;
  bool scalar = false;  ///< exactly one value, shown as a number instead of a list
};

struct H5Dataset {
  std::string path;  ///< "model/w": '/' separates groups, which are made as needed
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;  ///< row-major; empty: a scalar
  std::vector<H5Attribute> attributes;
};

/// Where everything lies in an HDF5 file:
///   [user block | HDF5 metadata, zero-padded to 4 KiB | raw tensors, each on a 4 KiB border, in the given
///   order]
/// The same input always gives the same bytes.
struct H5Layout {
  std::uint64_t user_block = 0;
  std::vector<std::byte> metadata;     ///< belongs at `user_block`; a multiple of 4 KiB
  std::vector<std::uint64_t> offsets;  ///< file offset of each data set; 0 when it has no bytes
  std::uint64_t file_bytes = 0;
};

/// `user_block`: 0 or a power of two >= 4096. `root`: attributes of the root group.
/// Throws Error(kCheckpoint) when libhdf5 refuses something, which is a defect here or memory running out.
[[nodiscard]] H5Layout lay_out_h5(std::span<const H5Dataset> datasets, std::uint64_t user_block,
                                  std::span<const H5Attribute> root);

/// Version of libhdf5 in use, "1.10.8".
[[nodiscard]] std::string h5_version();

}  // namespace echelon::checkpoint
