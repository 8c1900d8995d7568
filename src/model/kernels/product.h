#pragma once
#include <cstddef>
#include <cstdint>

#include "model/kernels/arguments.h"

namespace echelon::kernels {

/// A strided matrix: element (row, column) is data[row * row_stride + column * column_stride];
/// one of the strides is 1. Nothing needs to be aligned.
template <class Pointer>
struct MatrixView {
  Pointer data;
  std::int64_t row_stride;
  std::int64_t column_stride;

  [[nodiscard]] MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

/// c [m, n] = a [m, k] * b [k, n], or with `accumulate` added to what c holds. Every element is a sum in
/// fp32, rounded once. c overlaps neither a nor b.
template <class T>
struct Product {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  MatrixView<const T*> a;
  MatrixView<const T*> b;
  MatrixView<T*> c;
  bool accumulate;
};

/// A way to compute products. Single-threaded; callers split columns or rows of c. The order of an element's
/// sum depends on k alone.
template <class T>
struct ProductKernel {
  /// Bytes of scratch memory that run() needs.
  std::size_t (*workspace)(const Product<T>& product);
  /// `workspace`: 64-byte aligned.
  void (*run)(const Product<T>& product, std::byte* workspace);
};

/// Matrix products with the processor's bf16 dot products (AVX512-BF16): blocked as by Goto and van de Geijn
/// (Anatomy of High-Performance Matrix Multiplication), operands packed on the way into the cache in whatever
/// orientation they come, so that a transposed operand or result costs no pass of its own. Null where the
/// processor has no such instructions.
[[nodiscard]] const ProductKernel<Bf16>* product_kernel();

}  // namespace echelon::kernels
