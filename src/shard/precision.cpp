#include "shard/precision.h"

#include <array>

#include "base/error.h"
#include "base/str.h"

namespace echelon {
namespace {

struct Preset {
  const char* name;
  const char* param;
  const char* reduce;
  const char* buffer;
  const char* master;
};

/// The named policies of the PyTorch FSDP tutorials, and bf16_pure for optimizers that keep low-precision
/// weights exact (AnyPrecisionAdamW).
constexpr std::array<Preset, 7> kPresets{{{"none", "fp32", "unset", "unset", "fp32"},
                                          {"fp32", "fp32", "fp32", "fp32", "fp32"},
                                          {"bf16", "bf16", "bf16", "bf16", "fp32"},
                                          {"bf16_fp32_reduce", "bf16", "fp32", "bf16", "fp32"},
                                          {"fp16", "fp16", "fp16", "fp16", "fp32"},
                                          {"grad_bf16", "fp32", "bf16", "unset", "fp32"},
                                          {"bf16_pure", "bf16", "bf16", "bf16", "bf16"}}};

const Preset& preset_of(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name == preset.name) return preset;
  }
  throw Error(Code::kUsage, str("precision.preset '", name,
                                "' is unknown; known: none, fp32, bf16, "
                                "bf16_fp32_reduce, fp16, grad_bf16, bf16_pure"));
}

at::ScalarType choose(const std::string& key, const std::string& preset, at::ScalarType not_cast) {
  if (key != "unset") return scalar_type(key);
  return preset == "unset" ? not_cast : scalar_type(preset);
}

}  // namespace

Precision resolve(const PrecisionOptions& options) {
  const Preset& preset = preset_of(options.preset);
  Precision precision;
  precision.param = choose(options.param, preset.param, at::kFloat);
  precision.reduce = choose(options.reduce, preset.reduce, precision.param);
  precision.buffer = choose(options.buffer, preset.buffer, at::kFloat);
  precision.output = choose(options.output, "unset", precision.param);
  precision.master = choose(options.master, preset.master, at::kFloat);
  return precision;
}

at::ScalarType scalar_type(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp32") return at::kFloat;
  if (name == "fp16") return at::kHalf;
  throw Error(Code::kUsage, str("precision '", name, "' is unknown; known: bf16, fp16, fp32"));
}

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kF32;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kHalf:
      return DType::kF16;
    default:
      throw Error(Code::kUsage, str("weights of type ", c10::toString(type), " are not supported"));
  }
}

std::string precision_name(at::ScalarType type) {
  return std::string(name_of(dtype_of(type)));
}

}  // namespace echelon
