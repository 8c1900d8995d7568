#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::app::doctor {

/// One GPU as nvidia-smi reports it.
struct GpuCard {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int max_mhz = 0;              ///< maximum clock of the multiprocessors
  std::uint64_t slowed_by = 0;  ///< NVML's bit mask of the current reasons for a reduced clock
  std::int64_t ecc_errors = 0;  ///< uncorrected errors since the driver was loaded; -1: not counted
};

struct Gpus {
  std::vector<GpuCard> cards;
  std::string note;  ///< why GPUs could not be queried; empty on success
};

/// Runs nvidia-smi for at most 8 seconds. Without nvidia-smi there are no cards, and a note. Lines of another
/// form are ignored.
[[nodiscard]] Gpus ask_gpus();

/// The grave reasons in `slowed_by` as text: "HW thermal slowdown, power brake"; "" if there are none.
[[nodiscard]] std::string grave_slowdown(std::uint64_t slowed_by);

}  // namespace echelon::app::doctor
