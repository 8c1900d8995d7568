#include "model/ops/product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "model/kernels/bf16_products.h"
#include "model/kernels/product.h"
#include "model/ops/access.h"

namespace echelon::ops {
namespace {

using kernels::Bf16;
using kernels::Product;

/// Packing pays off from this size; a product with few vectors is limited by reading the matrix once.
constexpr std::int64_t kFewestRows = 8;
/// Below this size, oneDNN's AMX kernels gain less than compiling code for each new shape costs.
constexpr std::int64_t kLeastTiled = std::int64_t{1} << 23;
/// Threads get multiples of this many rows or columns, so that no tile is split between them.
constexpr std::int64_t kSplit = 48;

bool lies_well(const at::Tensor& matrix) {
  return matrix.is_cpu() && matrix.scalar_type() == at::kBFloat16 &&
         ((matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1)) ||
          (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0)));
}

/// A function of the shape alone, so that the bits do not depend on what was computed before.
bool better_tiled(std::int64_t m, std::int64_t n, std::int64_t k) {
  static const bool tiles = kernels::bf16_products() == kernels::Bf16Products::kAmx;
  return tiles && m * n * k >= kLeastTiled;
}

bool suits(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return kernels::product_kernel() != nullptr && lies_well(out) && lies_well(a) && lies_well(b) &&
         std::min({a.size(0), a.size(1), b.size(1)}) >= kFewestRows &&
         !better_tiled(a.size(0), b.size(1), a.size(1));
}

void run(const Product& product) {
  const auto bytes = static_cast<std::int64_t>(kernels::product_kernel()->workspace(product));
  const at::Tensor space = at::empty({bytes}, at::kByte);
  kernels::product_kernel()->run(product, reinterpret_cast<std::byte*>(out<std::uint8_t>(space)));
}

void library_product(at::Tensor result, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  if (accumulate) {
    result.addmm_(a, b);
  } else {
    at::mm_out(result, a, b);
  }
}

/// Rows or columns [from, to) of the result.
Product part(Product whole, bool rows, std::int64_t from, std::int64_t to) {
  if (rows) {
    whole.a.data += from * whole.a.row_stride;
    whole.c.data += from * whole.c.row_stride;
    whole.m = to - from;
  } else {
    whole.b.data += from * whole.b.column_stride;
    whole.c.data += from * whole.c.column_stride;
    whole.n = to - from;
  }
  return whole;
}

}  // namespace

void product_into(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  if (!suits(result, a, b)) {
    // On processors without fp16 products, at::mm is 40 times faster if both operands are contiguous along
    // the summed dimension.
    const bool fp16_on_cpu = result.is_cpu() && result.scalar_type() == at::kHalf;
    return fp16_on_cpu ? library_product(result, a.contiguous(), b.t().contiguous().t(), accumulate)
                       : library_product(result, a, b, accumulate);
  }
  const Product whole{.m = a.size(0),
                      .n = b.size(1),
                      .k = a.size(1),
                      .a = {in<Bf16>(a), a.stride(0), a.stride(1)},
                      .b = {in<Bf16>(b), b.stride(0), b.stride(1)},
                      .c = {out<Bf16>(result), result.stride(0), result.stride(1)},
                      .accumulate = accumulate};
  const bool rows = whole.m > whole.n;
  const std::int64_t length = rows ? whole.m : whole.n;
  at::parallel_for(0, (length + kSplit - 1) / kSplit, 1, [&](std::int64_t from, std::int64_t to) {
    run(part(whole, rows, from * kSplit, std::min(length, to * kSplit)));
  });
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_into(result, a, b, false);
  return result;
}

}  // namespace echelon::ops
