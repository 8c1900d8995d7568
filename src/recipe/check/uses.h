#pragma once
#include <cstdint>
#include <functional>

#include "data/options.h"
#include "optim/options.h"
#include "shapes/llama_family.h"

namespace echelon::recipe {

/// Keys that are used only with some values of another key, their chooser.
struct Use {
  const char* keys;  ///< with blanks between them
  const char* chooser;
  std::uint16_t values;  ///< values of `chooser`, one bit each
};

/// The given values of one enum or switch as a bit set.
template <class... Values>
constexpr std::uint16_t any_of(Values... values) {
  return static_cast<std::uint16_t>(((1U << static_cast<unsigned>(values)) | ...));
}

static_assert(kWords<ModelKind>.size() <= 16, "a kind of model has no bit");

/// The families of Llama's decoder that `chosen`, a member or a function, picks.
template <class Chosen>
constexpr std::uint16_t llamas_with(Chosen chosen) {
  std::uint16_t kinds = 0;
  for (const LlamaFamily& family : kLlamaFamilies) {
    if (std::invoke(chosen, family)) kinds |= any_of(family.kind);
  }
  return kinds;
}

inline constexpr std::uint16_t kLlamas = llamas_with([](const LlamaFamily&) { return true; });
inline constexpr std::uint16_t kRoundingLlamas =
    llamas_with([](const LlamaFamily& family) { return !family.norm_rounding; });

inline constexpr std::uint16_t kAdamWs =
    any_of(OptimKind::kAdamW, OptimKind::kAnyPrecisionAdamW, OptimKind::kMuon);
inline constexpr std::uint16_t kWarmups =
    any_of(ScheduleKind::kLinearWarmup, ScheduleKind::kWarmupCosine, ScheduleKind::kWarmupStableDecay);

/// Models of blocks, those of them that take token ids, and data that give ids.
inline constexpr auto kBlocks = static_cast<std::uint16_t>(~any_of(ModelKind::kCnn));
inline constexpr auto kOfTokens =
    static_cast<std::uint16_t>(~any_of(ModelKind::kVit, ModelKind::kDeepVit, ModelKind::kCnn));
inline constexpr std::uint16_t kTokenData =
    any_of(DataKind::kTokens, DataKind::kPairs, DataKind::kChat, DataKind::kPreference,
           DataKind::kSyntheticTokens, DataKind::kSyntheticPairs);

}  // namespace echelon::recipe
