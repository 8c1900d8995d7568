#pragma once
#include "model/kernels/kernels.h"
#include "model/kernels/observer.h"
#include "model/kernels/product.h"

/// The tables that each instruction set's build of kernels_impl.cpp provides.
namespace echelon::kernels {

struct Tables {
  Table<float> f32;
  Table<Bf16> bf16;
  Table<Fp16> fp16;
  double (*sum_of_squares)(const float*, std::int64_t);
};

/// Zero; defined where the compiler of the kernels cannot see it.
extern const std::uint32_t kNoBits;

namespace avx512 {
extern const Tables tables;
}
namespace avx2 {
extern const Tables tables;
}
namespace generic {
extern const Tables tables;
}

extern const ProductKernel avx512_bf16_product;

/// The tables that replace the kernels of this processor.
struct Replacement {
  const Tables* tables = nullptr;
  Observer* observer = nullptr;  ///< outlives the replacement
};
/// The kernels of this processor, whatever stands in for them.
[[nodiscard]] const Tables& processor_tables();
/// Replaces the kernels; without tables, restores the processor's own. Call it before any thread computes.
void replace_kernels(const Replacement& replacement);

}  // namespace echelon::kernels
