#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace echelon::app::doctor {

/// One GPU as nvidia-smi tells of it.
struct GpuCard {
  std::string name;
  std::uint64_t memory_bytes = 0;
  int max_mhz = 0;              ///< of the multiprocessors
  std::uint64_t slowed_by = 0;  ///< NVML's mask of what holds the clock down now
  std::int64_t ecc_errors = 0;  ///< uncorrected, since the driver was loaded; -1: not counted
};

struct Gpus {
  std::vector<GpuCard> cards;
  std::string note;  ///< why nothing is known of them; empty where all was told
};

/// nvidia-smi, for at most `deadline_s`. A machine without it has no cards and a note.
[[nodiscard]] Gpus ask_gpus(double deadline_s);

/// Lines of `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`; those of another form are left out.
[[nodiscard]] std::vector<GpuCard> parse_gpus(const std::string& text);

/// "HW thermal slowdown, power brake", or "" where nothing grave holds a clock down.
[[nodiscard]] std::string grave_slowdown(std::uint64_t slowed_by);

}  // namespace echelon::app::doctor
