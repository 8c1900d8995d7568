#pragma once
#include <algorithm>
#include <cstdint>

#include "base/options/choice.h"
#include "base/options/float_type.h"
#include "base/options/patterns.h"

namespace echelon {

/// Sets several types at once. The presets are the named policies of the PyTorch FSDP tutorials, plus
/// kBf16Pure for optimizers that update bf16 weights without losing small updates (AnyPrecisionAdamW).
enum class PrecisionPreset : std::uint8_t {
  kNone,
  kFp32,
  kBf16,
  kBf16Fp32Reduce,
  kFp16,
  kGradBf16,
  kBf16Pure
};
template <>
inline constexpr std::array<std::string_view, 7> kWords<PrecisionPreset>{
    "none", "fp32", "bf16", "bf16_fp32_reduce", "fp16", "grad_bf16", "bf16_pure"};

/// The types that a preset sets. kUnset: the default of types_of().
struct PresetTypes {
  FloatType param, reduce, buffer, master;
};
[[nodiscard]] constexpr PresetTypes types_of(PrecisionPreset preset) {
  using enum FloatType;
  switch (preset) {
    case PrecisionPreset::kNone: break;
    case PrecisionPreset::kFp32: return {kFp32, kFp32, kFp32, kFp32};
    case PrecisionPreset::kBf16: return {kBf16, kBf16, kBf16, kFp32};
    case PrecisionPreset::kBf16Fp32Reduce: return {kBf16, kFp32, kBf16, kFp32};
    case PrecisionPreset::kFp16: return {kFp16, kFp16, kFp16, kFp32};
    case PrecisionPreset::kGradBf16: return {kFp32, kBf16, kUnset, kFp32};
    case PrecisionPreset::kBf16Pure: return {kBf16, kBf16, kBf16, kBf16};
  }
  return {kFp32, kUnset, kUnset, kFp32};
}

/// What the operands of products of the blocks' matrices are rounded to: nothing beyond `param`, or fp8.
enum class Matmul : std::uint8_t { kParam, kFp8 };
template <>
inline constexpr std::array<std::string_view, 2> kWords<Matmul>{"param", "fp8"};

/// Recipe section `precision`. An unset type is that of the preset; without a preset, it is the default of
/// types_of().
struct PrecisionOptions {
  PrecisionPreset preset = PrecisionPreset::kNone;
  FloatType param = FloatType::kUnset;   ///< weights and activations while computing
  FloatType reduce = FloatType::kUnset;  ///< gradients sent between ranks
  FloatType buffer = FloatType::kUnset;  ///< constant tables (rotary cos/sin)
  FloatType output = FloatType::kUnset;  ///< logits as passed to the loss
  FloatType master = FloatType::kUnset;  ///< weights kept by each rank: unset | fp32 | bf16
  FloatType frozen = FloatType::kUnset;  ///< those of units of which nothing is trained; unset: as `master`
  Matmul matmul = Matmul::kParam;
  /// GPU: fp32 products and convolutions round their inputs to TF32 (10 bits of mantissa) and are faster.
  bool tf32 = false;
  PatternMap<FloatType> overrides;  ///< module pattern -> type of its weights and computation
  double loss_scale = 65536.0;      ///< fp16: initial factor on the loss, a power of two
  /// Fp16: consecutive finite steps after which the factor doubles.
  std::int64_t loss_scale_growth_steps = 2000;
};

/// The types of PrecisionOptions when all are known.
struct PrecisionTypes {
  FloatType param, reduce, buffer, output, master, frozen;
};
/// A key that is set overrides the preset. Defaults without either: `param`, `buffer` and `master` are fp32;
/// `reduce` and `output` equal `param`, `frozen` equals `master`.
[[nodiscard]] inline PrecisionTypes types_of(const PrecisionOptions& options) {
  const auto either = [](FloatType key, FloatType other) { return key == FloatType::kUnset ? other : key; };
  const PresetTypes preset = types_of(options.preset);
  const FloatType param = either(options.param, preset.param);
  const FloatType master = either(options.master, preset.master);
  return {.param = param,
          .reduce = either(options.reduce, either(preset.reduce, param)),
          .buffer = either(options.buffer, either(preset.buffer, FloatType::kFp32)),
          .output = either(options.output, param),
          .master = master,
          .frozen = either(options.frozen, master)};
}

/// Returns whether weights, activations or gradients may pass through this type. Any override counts: which
/// modules its pattern matches is known only with the model.
[[nodiscard]] inline bool computes_in(const PrecisionOptions& options, FloatType type) {
  const PrecisionTypes types = types_of(options);
  return types.param == type || types.reduce == type || types.output == type ||
         std::ranges::any_of(options.overrides, [&](const auto& entry) { return entry.second == type; });
}

}  // namespace echelon
