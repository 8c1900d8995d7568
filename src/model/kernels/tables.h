#pragma once
#include <cstdint>

#include "model/kernels/kernels.h"

/// The tables that each instruction set's build of kernels_impl.cpp provides.
namespace echelon::kernels {

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

extern const ProductKernel<Bf16> avx512_bf16_product;

/// Tables::initial_values of every instruction set.
void initial_values(const InitialValues& initial, std::uint64_t first, float* values, std::int64_t n);

}  // namespace echelon::kernels
