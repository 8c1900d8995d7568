#include "model/ops/products/product.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "model/kernels/bf16_products.h"
#include "model/kernels/product.h"
#include "model/ops/access.h"
#include "model/ops/products/widened_product.h"

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
  return (matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1)) ||
         (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0));
}

/// A function of the shape alone, so that the bits do not depend on what was computed before.
bool better_tiled(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m * n * k >= kLeastTiled && kernels::bf16_products() == kernels::Bf16Products::kAmx;
}

bool suits_kernel(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  return out.is_cpu() && out.scalar_type() == at::kBFloat16 && kernels::product_kernel() != nullptr &&
         lies_well(out) && lies_well(a) && lies_well(b) &&
         std::min({a.size(0), a.size(1), b.size(1)}) >= kFewestRows &&
         !better_tiled(a.size(0), b.size(1), a.size(1));
}

template <class T>
const kernels::ProductKernel<T>& kernel_of() {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (const auto* const own = kernels::product_kernel()) return *own;
  }
  return widened_product<T>();
}

template <class T>
void run(const Product<T>& p) {
  const kernels::ProductKernel<T>& kernel = kernel_of<T>();
  const at::Tensor space = at::empty({static_cast<std::int64_t>(kernel.workspace(p))}, at::kByte);
  kernels::kernels<T>().product(kernel, p, out<std::byte>(space));
}

/// Rows or columns [from, to) of the result.
template <class T>
Product<T> part(Product<T> whole, bool rows, std::int64_t from, std::int64_t to) {
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

template <class T>
void run_in_threads(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  const Product<T> whole{.m = a.size(0),
                         .n = b.size(1),
                         .k = a.size(1),
                         .a = {in<T>(a), a.stride(0), a.stride(1)},
                         .b = {in<T>(b), b.stride(0), b.stride(1)},
                         .c = {out<T>(result), result.stride(0), result.stride(1)},
                         .accumulate = accumulate};
  const bool rows = whole.m > whole.n;
  const std::int64_t length = rows ? whole.m : whole.n;
  at::parallel_for(0, (length + kSplit - 1) / kSplit, 1, [&](std::int64_t from, std::int64_t to) {
    run(part(whole, rows, from * kSplit, std::min(length, to * kSplit)));
  });
}

at::Tensor lying_well(const at::Tensor& matrix) {
  return lies_well(matrix) ? matrix : matrix.contiguous();
}

void by_fp32(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  const at::Tensor place = lying_well(result);
  if (a.size(1) == 0) {
    if (!accumulate) place.zero_();
  } else if (result.scalar_type() == at::kHalf) {
    run_in_threads<kernels::Fp16>(place, lying_well(a), lying_well(b), accumulate);
  } else {
    run_in_threads<Bf16>(place, lying_well(a), lying_well(b), accumulate);
  }
  if (!place.is_same(result)) result.copy_(place);
}

}  // namespace

void product_into(const at::Tensor& result, const at::Tensor& a, const at::Tensor& b, bool accumulate) {
  if (goes_by_fp32(result)) return by_fp32(result, a, b, accumulate);
  if (suits_kernel(result, a, b)) return run_in_threads<Bf16>(result, a, b, accumulate);
  at::Tensor place = result;
  if (accumulate) {
    place.addmm_(a, b);
  } else {
    at::mm_out(place, a, b);
  }
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_into(result, a, b, false);
  return result;
}

namespace {

/// a [batch, m, k] * b [batch, k, n].
at::Tensor each_product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor result = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  for_each_task(a.size(0), true, [&](std::int64_t from, std::int64_t to) {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = from; i < to; ++i) product_into(result[i], a[i], b[i], false);
  });
  return result;
}

struct EachProduct : torch::autograd::Function<EachProduct> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    ctx->save_for_backward({a, b});
    return each_product(a, b);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list kept = ctx->get_saved_variables();
    return {ctx->needs_input_grad(0) ? each_product(grads[0], kept[1].transpose(1, 2)) : at::Tensor(),
            ctx->needs_input_grad(1) ? each_product(kept[0].transpose(1, 2), grads[0]) : at::Tensor()};
  }
};

}  // namespace

at::Tensor matmul(const at::Tensor& a, const at::Tensor& b) {
  if (!goes_by_fp32(a)) return at::matmul(a, b);
  std::vector<std::int64_t> shape = a.sizes().vec();
  shape.back() = b.size(-1);
  const bool shared = b.dim() == 2;
  const at::Tensor left = a.reshape({shared ? 1 : -1, shared ? -1 : a.size(-2), a.size(-1)});
  return EachProduct::apply(left, b.reshape({shared ? 1 : left.size(0), b.size(-2), b.size(-1)})).view(shape);
}

}  // namespace echelon::ops
