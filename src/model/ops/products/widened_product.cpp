#include "model/ops/products/widened_product.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "model/kernels/bf16_products.h"
#include "model/kernels/tables.h"

namespace echelon::ops {
namespace {

using kernels::Product;
using kernels::ProductKernel;

/// Rows and columns of a block: an element is widened once for so many products, and blocks stay in the
/// cache.
constexpr std::int64_t kSide = 512;

/// The loops of the processor, whatever replaces them: a product is one kernel, not many.
template <class T>
const kernels::Table<T>& table() {
  return kernels::table_of<T>(kernels::processor_tables());
}

/// Rows [row, row + rows) and the same of columns, and their place in fp32, in the same order of memory.
template <class T>
struct Block {
  Block(const kernels::MatrixView<T*>& matrix, std::int64_t row, std::int64_t column, std::int64_t rows,
        std::int64_t columns, float* place)
      : data(matrix.data + row * matrix.row_stride + column * matrix.column_stride),
        by_rows(matrix.column_stride == 1),
        lines(by_rows ? rows : columns),
        length(by_rows ? columns : rows),
        stride(by_rows ? matrix.row_stride : matrix.column_stride),
        wide(place) {}

  /// Calls f(element, its place, how many follow in both).
  template <class F>
  void each_line(const F& f) const {
    if (stride == length) return f(data, wide, lines * length);
    for (std::int64_t i = 0; i < lines; ++i) f(data + i * stride, wide + i * length, length);
  }
  [[nodiscard]] at::Tensor tensor() const {
    const at::Tensor by_line = at::from_blob(wide, {lines, length}, at::kFloat);
    return by_rows ? by_line : by_line.t();
  }
  [[nodiscard]] at::Tensor widened() const {
    each_line([](const auto* from, float* to, std::int64_t n) {
      table<std::remove_const_t<T>>().to_float(from, to, n);
    });
    return tensor();
  }

  T* data;
  bool by_rows;
  std::int64_t lines;
  std::int64_t length;
  std::int64_t stride;
  float* wide;
};

std::int64_t side(std::int64_t length) {
  return std::min(length, kSide);
}

/// One block of c.
template <class T>
void sum_up(const Product<T>& p, const Block<T>& c, std::int64_t row, std::int64_t column, float* space) {
  const std::int64_t rows = std::min(kSide, p.m - row);
  const std::int64_t columns = std::min(kSide, p.n - column);
  at::Tensor sum = p.accumulate ? c.widened() : c.tensor();
  for (std::int64_t k = 0; k < p.k; k += kSide) {
    const std::int64_t length = std::min(kSide, p.k - k);
    const at::Tensor a = Block<const T>(p.a, row, k, rows, length, space).widened();
    const at::Tensor b =
        Block<const T>(p.b, k, column, length, columns, space + side(p.m) * side(p.k)).widened();
    if (k > 0 || p.accumulate) {
      sum.addmm_(a, b);
    } else {
      at::mm_out(sum, a, b);
    }
  }
  c.each_line([](T* to, const float* from, std::int64_t n) { table<T>().from_float(from, to, n); });
}

/// Floats of scratch memory, 3 MiB at most.
std::int64_t space_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return side(m) * side(k) + side(k) * side(n) + side(m) * side(n);
}

template <class T>
void run(const Product<T>& p, std::byte* workspace) {
  const at::DisableRecordFunctionGuard one_kernel;
  const at::AutoDispatchBelowADInplaceOrView without_gradients;
  auto* const space = reinterpret_cast<float*>(workspace);
  float* const sums = space + (side(p.m) + side(p.n)) * side(p.k);
  for (std::int64_t column = 0; column < p.n; column += kSide) {
    for (std::int64_t row = 0; row < p.m; row += kSide) {
      const Block<T> c(p.c, row, column, std::min(kSide, p.m - row), std::min(kSide, p.n - column), sums);
      sum_up(p, c, row, column, space);
    }
  }
}

}  // namespace

bool goes_by_fp32(const at::Tensor& matrix) {
  if (!matrix.is_cpu()) return false;
  if (matrix.scalar_type() == at::kHalf) return !kernels::has_fp16_products();
  return matrix.scalar_type() == at::kBFloat16 && kernels::bf16_products() == kernels::Bf16Products::kNone;
}

template <class T>
const ProductKernel<T>& widened_product() {
  static constexpr ProductKernel<T> kernel{
      [](const Product<T>& p) { return static_cast<std::size_t>(space_of(p.m, p.n, p.k)) * sizeof(float); },
      run<T>};
  return kernel;
}

template const ProductKernel<kernels::Bf16>& widened_product();
template const ProductKernel<kernels::Fp16>& widened_product();

}  // namespace echelon::ops
