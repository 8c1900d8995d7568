#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "base/options/choice.h"

namespace echelon {

/// A curve of the learning rate (schedule.h describes each).
enum class ScheduleKind : std::uint8_t {
  kConstant,
  kLinearWarmup,
  kStep,
  kCosine,
  kWarmupCosine,
  kWarmupStableDecay,
  kSequence,
  kLinearDecay,  ///< only as a phase of a sequence
};
template <>
inline constexpr std::array<std::string_view, 8> kWords<ScheduleKind>{
    "constant",      "linear_warmup",       "step",     "cosine",
    "warmup_cosine", "warmup_stable_decay", "sequence", "linear_decay"};

/// The kinds a phase of a sequence may have.
inline constexpr std::array kPhaseKinds{ScheduleKind::kConstant, ScheduleKind::kLinearWarmup,
                                        ScheduleKind::kLinearDecay, ScheduleKind::kCosine,
                                        ScheduleKind::kStep};

/// A phase of a sequence.
struct SchedulePhase {
  ScheduleKind kind = ScheduleKind::kConstant;  ///< one of kPhaseKinds
  std::int64_t steps = 0;                       ///< 0: to the end of the run; only for the last phase
  bool operator==(const SchedulePhase&) const = default;
};

}  // namespace echelon
