#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/format/tensor.h"

/// Arithmetic on tensors and flat ranges; everything is checked for overflow because the numbers may come
/// from a file.
namespace echelon::checkpoint {

inline constexpr std::size_t kMaxDims = 8;
inline constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;
inline constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 50;

/// Number of elements, 1 for a scalar; nothing when a dimension or the product is out of bounds.
[[nodiscard]] std::optional<std::uint64_t> count_elements(std::span<const std::int64_t> shape, DType dtype);

/// The same for a tensor that was checked before.
[[nodiscard]] std::uint64_t element_count(const TensorInfo& tensor);
[[nodiscard]] std::uint64_t byte_count(const TensorInfo& tensor);
/// The bytes of all, modulo 2^64.
[[nodiscard]] std::uint64_t byte_count(std::span<const TensorInfo> tensors);

/// Throws Error(kCheckpoint) when the name, element type or shape is not allowed, or when two tensors have
/// one name, or one is named like a group of another ("a" and "a/b").
void check_tensors(std::span<const TensorInfo> tensors);

[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);  ///< "[768, 3072]"

/// The element type called `name` in manifests, or nothing.
[[nodiscard]] std::optional<DType> dtype_named(std::string_view name);

}  // namespace echelon::checkpoint
