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

Replacement replacement;

const Choice& choice() {
  static const Choice chosen = choose();
  return chosen;
}

const Tables& tables() {
  return replacement.tables != nullptr ? *replacement.tables : *choice().tables;
}

}  // namespace

const ProductKernel* product_kernel() {
#if defined(__x86_64__)
  if (has_avx512_bf16()) return &avx512_bf16_product;
#endif
  return nullptr;
}

const Tables& processor_tables() {
  return *choice().tables;
}

void replace_kernels(const Replacement& by) {
  replacement = by;
}

Observer* observer() {
  return replacement.observer;
}

template <>
const Table<float>& kernels<float>() {
  return tables().f32;
}
template <>
const Table<Bf16>& kernels<Bf16>() {
  return tables().bf16;
}
template <>
const Table<Fp16>& kernels<Fp16>() {
  return tables().fp16;
}
double sum_of_squares(const float* values, std::int64_t n) {
  return tables().sum_of_squares(values, n);
}
const char* instruction_set() {
  return choice().name;
}

}  // namespace echelon::kernels
