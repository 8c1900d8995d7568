#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace echelon::checkpoint {

/// An axis-aligned part of a tensor.
struct Box {
  std::vector<std::uint64_t> start;
  std::vector<std::uint64_t> count;
};

/// Elements [begin, end) of the flattened tensor as boxes whose elements, box after box in row-major order,
/// are that range: at most 2N-1 for N dimensions. `shape`: one dimension or more, [begin, end) inside it.
[[nodiscard]] std::vector<Box> boxes_of(std::span<const std::uint64_t> shape, std::uint64_t begin,
                                        std::uint64_t end);

}  // namespace echelon::checkpoint
