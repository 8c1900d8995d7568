#include "model/kernels/tables.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace echelon::kernels {

const std::uint32_t kNoBits = 0;

namespace {

struct Choice {
  const Tables* tables;
  const char* name;
};

Choice choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0) {
    return {&avx512::tables, "avx512"};
  }
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
    return {&avx2::tables, "avx2"};
#endif
  return {&generic::tables, "generic"};
}

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

const ProductKernel* choose_product() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (&choice().tables->f32 != &avx512::tables.f32) return nullptr;
  const bool amx_bf16 = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> 22 & 1U) != 0;
  const bool avx512_bf16 = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1U) != 0;
  if (avx512_bf16 && !amx_bf16) return &avx512_bf16_product;
#endif
  return nullptr;
}

}  // namespace

const ProductKernel* product_kernel() {
  static const ProductKernel* const chosen = choose_product();
  return chosen;
}

template <>
const Table<float>& kernels<float>() {
  return choice().tables->f32;
}
template <>
const Table<Bf16>& kernels<Bf16>() {
  return choice().tables->bf16;
}
template <>
const Table<Fp16>& kernels<Fp16>() {
  return choice().tables->fp16;
}
double sum_of_squares(const float* values, std::int64_t n) {
  return choice().tables->sum_of_squares(values, n);
}
const char* instruction_set() {
  return choice().name;
}

}  // namespace echelon::kernels
