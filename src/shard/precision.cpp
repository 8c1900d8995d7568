#include "shard/precision.h"

#include <ATen/Context.h>

#include "base/error.h"

namespace echelon {
namespace {

at::ScalarType choose(FloatType key, FloatType preset, at::ScalarType not_cast) {
  const FloatType type = overridden(preset, key);
  return type == FloatType::kUnset ? not_cast : scalar_type(type);
}

}  // namespace

Precision resolve(const PrecisionOptions& options) {
  const PresetTypes preset = types_of(options.preset);
  Precision precision;
  precision.param = choose(options.param, preset.param, at::kFloat);
  precision.reduce = choose(options.reduce, preset.reduce, precision.param);
  precision.buffer = choose(options.buffer, preset.buffer, at::kFloat);
  precision.output = choose(options.output, FloatType::kUnset, precision.param);
  precision.master = choose(options.master, preset.master, at::kFloat);
  precision.frozen = choose(options.frozen, FloatType::kUnset, precision.master);
  precision.fp8 = options.matmul == Matmul::kFp8;
  return precision;
}

void limit_rounding(const PrecisionOptions& options) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(options.tf32);
  context.setAllowTF32CuDNN(options.tf32);  // PyTorch's default is true
  context.setAllowBF16ReductionCuBLAS(false);
  context.setAllowFP16ReductionCuBLAS(false);
}

at::ScalarType scalar_type(FloatType type) {
  switch (type) {
    case FloatType::kBf16: return at::kBFloat16;
    case FloatType::kFp32: return at::kFloat;
    case FloatType::kFp16: return at::kHalf;
    case FloatType::kUnset: break;
  }
  throw Error::internal("a type of a module is unset");
}

}  // namespace echelon
