#pragma once
#include "model/kernels/tables.h"

namespace echelon::book {

/// Returns CPU kernels that record their calls and compute nothing. Sums are 1.
[[nodiscard]] kernels::Replacement recording_kernels();

}  // namespace echelon::book
