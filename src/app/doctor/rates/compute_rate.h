#pragma once
#include "app/doctor/finding.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Matrix products on all ranks at once, through the training engine: on GPUs where each rank can have one,
/// else on the cores. Collective; about `seconds` and what loading the engine takes. Every rank gets the
/// finding `matmul`: nodes slower than the share `slow` of the others. Where a rank has no engine: a fault.
[[nodiscard]] Finding examine_compute_rate(Job& job, double seconds, double slow);

}  // namespace echelon::app::doctor
