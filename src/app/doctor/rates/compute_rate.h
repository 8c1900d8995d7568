#pragma once
#include "app/doctor/finding.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Measures matrix products on all ranks at the same time, through the training engine: on GPUs if each rank
/// can get its own, else on the CPU. Collective. Takes about `seconds` plus the time to load the engine.
/// Every rank gets the finding `matmul`, which names nodes slower than the share `slow` of the others (see
/// judge_rates()). A rank without an engine is a fault.
[[nodiscard]] Finding examine_compute_rate(Job& job, double seconds, double slow);

}  // namespace echelon::app::doctor
