#pragma once
#include "model/kernels/tables.h"

namespace echelon::book {

/// CPU kernels that record what they are called for, and compute nothing. Sums are 1.
[[nodiscard]] kernels::Replacement recording_kernels();

}  // namespace echelon::book
