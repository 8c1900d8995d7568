#pragma once
#include <ATen/core/Tensor.h>

/// Matrices in eight bits with one scale each, as torchao's tensorwise recipe makes them: scale = largest
/// value of the type / largest magnitude in the matrix, computed in fp64, kept in fp32; an element is the
/// value times it, rounded. With such a scale nothing is out of range. The product with a matrix that has a
/// NaN or an infinity is NaN everywhere.
namespace echelon::ops {

/// The types of values, and of gradients.
inline constexpr at::ScalarType kFp8Values = at::kFloat8_e4m3fn;
inline constexpr at::ScalarType kFp8Gradients = at::kFloat8_e5m2;

struct Fp8Matrix {
  at::Tensor elements;  ///< [rows, columns], dense and row-major
  at::Tensor factor;    ///< fp32 [1]: 1 / scale, by which elements become values
};

/// The orders in which products read a matrix.
struct Fp8Orders {
  Fp8Matrix rows;
  /// [columns, rows], with zeros behind the rows up to a multiple of 16, which products sum over.
  Fp8Matrix transposed;
};
struct Fp8Wanted {
  bool rows = false;
  bool transposed = false;
};

/// fp32 [2]: the scale and 1 / scale. `type`: at::kFloat8_e4m3fn or at::kFloat8_e5m2. A matrix of zeros has
/// the scale of 1e-12.
[[nodiscard]] at::Tensor fp8_scale(const at::Tensor& matrix, at::ScalarType type);
void fp8_scale_into(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale);

/// `scale`: fp8_scale() of this matrix and type. An order that is not wanted has undefined elements.
[[nodiscard]] Fp8Orders to_fp8(const at::Tensor& matrix, at::ScalarType type, const at::Tensor& scale,
                               Fp8Wanted wanted);
/// As to_fp8(), to `rows` and `transposed`. Undefined: not wanted.
void fp8_cast_into(const at::Tensor& matrix, const at::Tensor& scale, const at::Tensor& rows,
                   const at::Tensor& transposed);
/// The factor of what was cast by `scale`.
[[nodiscard]] at::Tensor fp8_factor(const at::Tensor& scale);
/// The other order of a matrix in rows, whose number is a multiple of 16.
[[nodiscard]] Fp8Matrix fp8_transposed(const Fp8Matrix& rows);

/// result [m, n] becomes a [m, k] * b [n, k]^T, or that is added to it. Sums are fp32 and rounded once; on a
/// GPU `fast` ones keep fewer bits. n and k are multiples of 16.
void fp8_product_into(const at::Tensor& result, const Fp8Matrix& a, const Fp8Matrix& b, bool fast,
                      bool accumulate);
[[nodiscard]] at::Tensor fp8_product(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast);

}  // namespace echelon::ops
