#pragma once
#include <ATen/core/Tensor.h>

/// Matrices in eight bits with one scale each, as torchao's tensorwise recipe makes them: scale = largest
/// value of the type / largest magnitude in the matrix, computed in fp64, kept in fp32; an element is the
/// value times it, rounded. With such a scale nothing is out of range. The product with a matrix that has a
/// NaN or an infinity is NaN everywhere.
namespace echelon::ops {

struct Fp8Matrix {
  at::Tensor elements;  ///< [rows, columns], dense and row-major
  at::Tensor factor;    ///< fp32 [1]: 1 / scale, by which elements become values
};

/// fp32 [1]. `type`: at::kFloat8_e4m3fn or at::kFloat8_e5m2. A matrix of zeros has the scale of 1e-12.
[[nodiscard]] at::Tensor fp8_scale(const at::Tensor& matrix, at::ScalarType type);

/// `scale`: fp8_scale(matrix, type).
[[nodiscard]] Fp8Matrix to_fp8(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale);
[[nodiscard]] Fp8Matrix to_fp8(const at::Tensor& matrix, at::ScalarType type);

/// [columns, rows], with zeros behind the rows up to a multiple of 16, which products sum over.
[[nodiscard]] Fp8Matrix transposed(const Fp8Matrix& matrix);

/// result [m, n] becomes a [m, k] * b [n, k]^T, or that is added to it. Sums are fp32 and rounded once; on a
/// GPU `fast` ones keep fewer bits. n and k are multiples of 16.
void fp8_product_into(const at::Tensor& result, const Fp8Matrix& a, const Fp8Matrix& b, bool fast,
                      bool accumulate);
[[nodiscard]] at::Tensor fp8_product(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast);

}  // namespace echelon::ops
