#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "base/options/choice.h"

namespace echelon {

/// A learning rate by step; those that a phase of a sequence may have are in kPhaseKinds.
enum class ScheduleKind : std::uint8_t {
  kConstant,
  kLinearWarmup,
  kStep,
  kCosine,
  kWarmupCosine,
  kWarmupStableDecay,
  kSequence,
  kLinearDecay,  ///< of a phase only
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
  std::int64_t steps = 0;                       ///< 0, only of the last phase: to the end of the run
  bool operator==(const SchedulePhase&) const = default;
};

}  // namespace echelon
