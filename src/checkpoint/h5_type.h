#pragma once
#include <hdf5.h>

#include "base/dtype.h"

namespace echelon::checkpoint {

/// The HDF5 type of an element in a file, little-endian; the caller closes it. Negative when libhdf5 fails.
[[nodiscard]] hid_t make_h5_type(DType dtype);

}  // namespace echelon::checkpoint
