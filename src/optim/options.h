#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options/choice.h"
#include "base/options/float_type.h"
#include "base/options/patterns.h"

namespace echelon {

enum class OptimKind : std::uint8_t {
  kAdamW,              ///< Loshchilov & Hutter
  kAnyPrecisionAdamW,  ///< low-precision states, Kahan-compensated weights
  kSgd,
  kAdadelta,  ///< Zeiler
  kMuon,      ///< Jordan: orthogonalized momentum of matrices
};
template <>
inline constexpr std::array<std::string_view, 5> kWords<OptimKind>{"adamw", "anyprecision_adamw", "sgd",
                                                                   "adadelta", "muon"};

/// The factor on the learning rate of a matrix [rows, columns].
enum class MuonScale : std::uint8_t {
  kMatchAdamW,  ///< 0.2 sqrt(max(rows, columns))
  kSpectral,    ///< sqrt(max(1, rows / columns))
};
template <>
inline constexpr std::array<std::string_view, 2> kWords<MuonScale>{"match_adamw", "spectral"};

/// Recipe section `optim.muon`.
struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  std::int64_t ns_steps = 5;  ///< Newton-Schulz iterations
  MuonScale scale = MuonScale::kMatchAdamW;
  std::vector<std::string> adamw;  ///< patterns of matrices that AdamW updates
};

/// Recipe section `optim`.
struct OptimOptions {
  OptimKind kind = OptimKind::kAdamW;
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;                            ///< sgd
  bool nesterov = false;                            ///< sgd
  double rho = 0.9;                                 ///< adadelta
  FloatType momentum_dtype = FloatType::kBf16;      ///< anyprecision_adamw: first moment, fp32 | bf16
  FloatType variance_dtype = FloatType::kBf16;      ///< anyprecision_adamw: second moment
  FloatType compensation_dtype = FloatType::kBf16;  ///< anyprecision_adamw: Kahan compensation
  bool kahan = true;                                ///< anyprecision_adamw
  MuonOptions muon;                                 ///< muon
  std::vector<std::string> no_decay;                ///< patterns of parameters without weight decay
  PatternMap<double> lr_factors;                    ///< parameter pattern -> factor on the learning rate
  double ema_decay = 0.0;                           ///< decay of the averaged weights; 0: no average

  /// Factor 0: the parameter keeps its values, and is left out of everything that trains.
  [[nodiscard]] bool freezes(std::string_view parameter) const {
    const double* factor = last_match(lr_factors, parameter);
    return factor != nullptr && *factor == 0.0;
  }
};

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

/// Recipe section `schedule`: factor on optim.lr by step.
struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kWarmupCosine;
  std::int64_t warmup_steps = 0;
  double warmup_start_factor = 0.1;
  double min_lr = 0.0;           ///< absolute learning rate at the last step
  std::int64_t step_size = 1;    ///< step: steps between reductions
  std::int64_t step_epochs = 0;  ///< step: epochs between reductions; 0: step_size applies
  double gamma = 0.7;            ///< step: factor of each reduction
  std::int64_t decay_steps = 0;  ///< warmup_stable_decay: length of the final decay
  std::vector<SchedulePhase> sequence;
};

}  // namespace echelon
