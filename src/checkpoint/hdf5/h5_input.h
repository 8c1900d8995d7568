#pragma once
#include <hdf5.h>

#include <cstdint>

namespace echelon::checkpoint {

/// An open file that libhdf5 may only read; it never gets a path.
struct H5Input {
  int fd = -1;
  std::uint64_t bytes = 0;
};

/// Makes `access` (a file-access property list) use `input`, which must outlive the file. False on failure.
[[nodiscard]] bool use_input(hid_t access, const H5Input* input);

}  // namespace echelon::checkpoint
