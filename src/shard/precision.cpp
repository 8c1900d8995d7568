#include "shard/precision.h"

#include <ATen/Context.h>

#include "base/error.h"

namespace echelon {

Precision resolve(const PrecisionOptions& options) {
  const PrecisionTypes types = types_of(options);
  return {.param = scalar_type(types.param),
          .reduce = scalar_type(types.reduce),
          .buffer = scalar_type(types.buffer),
          .output = scalar_type(types.output),
          .master = scalar_type(types.master),
          .frozen = scalar_type(types.frozen),
          .fp8 = options.matmul == Matmul::kFp8};
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
