#include "model/ops/products/compiled_products.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "model/ops/heads.h"

namespace echelon::ops {
namespace {

constexpr std::int64_t kLeast = 128;
constexpr std::int64_t kMost = 1024;    // oneDNN's own default
constexpr std::int64_t kOfTokens = 64;  // projections and their gradients, in an encoder and a decoder
constexpr std::int64_t kOfBlock = 7;    // attention: two products in forward, five in backward
constexpr std::int64_t kDocuments = 2;  // documents that may share a block of queries

}  // namespace

std::int64_t products_worth_keeping(std::int64_t rows, std::int64_t length, kernels::Bf16Products products) {
  if (products != kernels::Bf16Products::kAmx) return kMost;
  const std::int64_t blocks = std::clamp<std::int64_t>((length + kQueryBlock - 1) / kQueryBlock, 1, kMost);
  const std::int64_t shapes =
      kOfTokens + kOfBlock * kDocuments * blocks * std::clamp<std::int64_t>(rows, 1, kMost);
  const std::uint64_t rounded = std::bit_ceil(static_cast<std::uint64_t>(shapes));
  return std::clamp(static_cast<std::int64_t>(rounded), kLeast, kMost);
}

void keep_compiled_products(std::int64_t shapes) {
  for (const char* variable : {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"})
    setenv(variable, std::to_string(shapes).c_str(), 0);
}

}  // namespace echelon::ops
