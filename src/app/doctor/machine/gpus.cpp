#include "app/doctor/machine/gpus.h"

#include <array>
#include <cstdlib>

#include "base/number.h"
#include "base/process/program.h"
#include "base/str.h"

namespace echelon::app::doctor {
namespace {

constexpr const char* kQuery =
    "--query-gpu=name,memory.total,clocks.max.sm,clocks_throttle_reasons.active,"
    "ecc.errors.uncorrected.volatile.total";
constexpr std::size_t kFields = 5;
constexpr double kDeadlineS = 8;

struct Slowdown {
  std::uint64_t bit;
  const char* name;
};
// Bits nvmlClocksThrottleReason* of nvml.h. Not listed, because they are no faults: idle, application clocks,
// software power cap.
constexpr std::array<Slowdown, 4> kGrave{{{0x08, "hardware slowdown"},
                                          {0x20, "software thermal slowdown"},
                                          {0x40, "hardware thermal slowdown"},
                                          {0x80, "power brake"}}};

}  // namespace

Gpus ask_gpus() {
  const ProgramRun run = run_program({"nvidia-smi", kQuery, "--format=csv,noheader,nounits"}, kDeadlineS);
  if (!run.good()) return {.note = run.trouble("nvidia-smi")};
  Gpus gpus;
  for (const std::string& line : split(run.out, '\n')) {
    const std::vector<std::string> fields = mapped(split(line, ','), trimmed);
    if (fields.size() != kFields) continue;
    char* end = nullptr;
    const long long errors = std::strtoll(fields[4].c_str(), &end, 10);
    const bool counted = end != fields[4].c_str();
    gpus.cards.push_back({.name = fields[0],
                          .memory_bytes = std::strtoull(fields[1].c_str(), nullptr, 10) << 20,
                          .max_mhz = static_cast<int>(std::strtol(fields[2].c_str(), nullptr, 10)),
                          .slowed_by = std::strtoull(fields[3].c_str(), nullptr, 16),
                          .ecc_errors = counted ? errors : -1});
  }
  return gpus;
}

std::string grave_slowdown(std::uint64_t slowed_by) {
  std::vector<std::string> names;
  for (const Slowdown& slowdown : kGrave)
    if ((slowed_by & slowdown.bit) != 0) names.emplace_back(slowdown.name);
  return join(names, ", ");
}

}  // namespace echelon::app::doctor
