#pragma once
#include "model/kernels/kernels.h"

namespace echelon::book {

/// Returns CPU kernels that record their calls and compute nothing. Sums are 1.
[[nodiscard]] const kernels::Tables& recording_kernels();

}  // namespace echelon::book
