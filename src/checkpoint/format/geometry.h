#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A piece of a tensor, stored by `rank`.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  int rank = 0;
};

/// Sorts `pieces` by begin and throws Error(kCheckpoint), naming the tensor, the first element at fault and
/// the ranks, unless they cover [0, elements) exactly once.
void prove_coverage(const std::string& tensor, std::uint64_t elements, std::vector<Range>& pieces);

}  // namespace echelon::checkpoint
