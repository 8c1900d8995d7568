#include "model/kernels/bf16_products.h"
#include "model/kernels/tables.h"

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
  if (processor().avx512) return {&avx512::tables, "avx512"};
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0)
    return {&avx2::tables, "avx2"};
#endif
  return {&generic::tables, "generic"};
}

const Tables* replacement = nullptr;

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

}  // namespace

const Tables& tables() {
  return replacement != nullptr ? *replacement : *choice().tables;
}

const ProductKernel<Bf16>* product_kernel() {
#if defined(__x86_64__)
  if (has_avx512_bf16()) return &avx512_bf16_product;
#endif
  return nullptr;
}

const Tables& processor_tables() {
  return *choice().tables;
}

void replace_kernels(const Tables* by) {
  replacement = by;
}

const char* instruction_set() {
  return choice().name;
}

}  // namespace echelon::kernels
